"""What the scripts' command lines share."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

from oneglance.errors import OneglanceError


def whole_number(text: str) -> int:
    """A number of at least 1, as an argument's type.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def positive_number(text: str) -> float:
    """A number above 0, as an argument's type.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def writable_path(text: str) -> Path:
    """A file in a folder that exists, as an argument's type.

    Raises:
        argparse.ArgumentTypeError: there is no such folder, or the path is one.
    """
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no file in a folder that exists")
    return path


def checked_main(main: Callable[[], None]) -> None:
    """Runs a script; an error that a user can cause becomes one line and exit code 1."""
    try:
        main()
    except OneglanceError as error:
        sys.exit(f"error: {error}")
