"""Servers under load: many requests at once, what they are given, and what must not happen."""
