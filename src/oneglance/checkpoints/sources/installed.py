"""Model files that an installed package carries."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from oneglance.checkpoints.sources.entry import InstalledFile


def find_installed(source: InstalledFile) -> Path | None:
    """Path of the file, or None if the package or the file is not there.

    The package is found, not imported: its own code and dependencies do not matter here.
    """
    try:
        spec = importlib.util.find_spec(source.package)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / source.filename
        if path.is_file():
            return path
    return None
