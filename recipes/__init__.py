"""Recipes that make training material: each module writes one file from a seed."""
