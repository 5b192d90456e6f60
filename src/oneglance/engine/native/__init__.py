"""The native engine: the layer loop in Python, the work of a layer in compiled kernels.

The kernels are the module `oneglance._native`, which an installation without a compiler lacks.
This package can be imported in any case; its modules `weights`, `model` and `engine` cannot.
"""

from __future__ import annotations

import importlib


def why_unavailable() -> str | None:
    """Why the kernels cannot be used on this machine; None if they can."""
    try:
        importlib.import_module("oneglance._native")
    except ModuleNotFoundError:
        return "this installation was made without a C++ compiler and has no compiled kernels"
    except ImportError as error:
        return f"the compiled kernels cannot be loaded ({error})"
    return None


def is_available() -> bool:
    """Whether the kernels can be used on this machine."""
    return why_unavailable() is None
