"""The forward pass over trees of tokens, and the key-value cache behind it."""
