"""Audits a loaded model with its drafters: bits, tokens, and the law of what is sampled."""
