"""Conditions that every test can rely on, and on which build of the kernels they run.

`ONEGLANCE_TEST_NATIVE=FOLDER` loads the module `oneglance._native` from that folder, such as a
CMake build folder with sanitizers (`make sanitize`), instead of the installed one.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path

# A shell that starts the tests in the background has them ignore Ctrl-C, and every command that
# they run would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _load_native(folder: Path) -> None:
    # The stable suffix of extension modules differs by Python and platform: take what is there.
    (library,) = folder.glob("_native*.so")
    name = "oneglance._native"
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


if "ONEGLANCE_TEST_NATIVE" in os.environ:
    _load_native(Path(os.environ["ONEGLANCE_TEST_NATIVE"]))
