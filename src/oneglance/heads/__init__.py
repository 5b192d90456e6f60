"""Trained heads that draft for a target: what they are and how they lie in files."""
