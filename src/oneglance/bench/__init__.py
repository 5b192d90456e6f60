"""Paired measurements of drafters and servers, their figures, and how they are shown."""
