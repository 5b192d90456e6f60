"""The OpenAI-compatible server: requests in, the scheduler's deliveries out."""
