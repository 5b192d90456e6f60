"""Where a measurement comes from: program, libraries, machine, day."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from oneglance import __version__
from oneglance.machine import cpu_name, num_cores

PACKAGE_DIR = Path(__file__).parents[1]


def provenance(command: str) -> dict[str, object]:
    """The facts without which a figure cannot be compared with another.

    Args:
        command: what was run.
    """
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "oneglance": __version__,
        "git_revision": git_revision(PACKAGE_DIR),
        "git_is_modified": git_is_modified(PACKAGE_DIR),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_name(),
        "cores": num_cores(),
    }


def git_revision(folder: Path) -> str | None:
    """The commit that is checked out, if `folder` is part of a checkout; None otherwise.

    A package that is installed below somebody else's checkout is not part of it.
    """
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return _git(folder, "rev-parse", "HEAD")


def git_is_modified(folder: Path) -> bool | None:
    """Whether `folder` differs from that commit; None where there is no commit."""
    if git_revision(folder) is None:
        return None
    return bool(_git(folder, "status", "--porcelain", "--", "."))


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None if it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
