"""Measurements of the engines; `make bench-engine` and `make perplexity` run the main ones."""
