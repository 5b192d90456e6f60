"""Lets the tests run on a build of the kernels other than the installed one.

`ONEGLANCE_TEST_NATIVE=FOLDER` loads the module `oneglance._native` from that folder, such as a
CMake build folder with sanitizers (`make sanitize`).
"""

import importlib.util
import os
import sys
from pathlib import Path


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
