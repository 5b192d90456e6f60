"""Bodies of requests: OpenAI's fields, and this server's extensions."""
