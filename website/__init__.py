"""Builds the documentation site from docs/: what MkDocs needs besides its own settings."""
