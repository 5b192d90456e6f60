"""Skips these tests where the kernels were not compiled, unless they could have been."""

from __future__ import annotations

import shutil

from oneglance.engine.native import is_available

HAS_COMPILER = any(shutil.which(name) for name in ("c++", "g++", "clang++"))

# Where there is a compiler the modules are collected, and fail if the kernels are missing.
collect_ignore_glob = [] if is_available() or HAS_COMPILER else ["test_*.py"]
