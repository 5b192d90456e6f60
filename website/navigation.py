"""The navigation: one entry can stand for all pages of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def expand(entry: Any, docs: Path) -> Any:
    """Puts the pages of a folder, ordered by name, in the place of a path that ends in a slash.

    Args:
        entry: part of a navigation as MkDocs has it: a path, or a title with a path or a list.
        docs: folder that paths are relative to.
    """
    if isinstance(entry, dict):
        return {title: expand(below, docs) for title, below in entry.items()}
    if isinstance(entry, list):
        return [expand(below, docs) for below in entry]
    if entry.endswith("/"):
        return [path.relative_to(docs).as_posix() for path in sorted((docs / entry).glob("*.md"))]
    return entry
