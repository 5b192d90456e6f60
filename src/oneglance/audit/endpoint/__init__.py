"""Audits a server that speaks OpenAI's API, by requests alone: whose engine it is does not matter.

Needs nothing but the core install; no model is loaded.
"""
