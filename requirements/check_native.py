"""Says when the kernels are missing; fails if a compiler is there, as its errors matter then."""

import shutil
import sys

from oneglance.engine.native import why_unavailable

reason = why_unavailable()
if reason is not None:
    has_compiler = any(shutil.which(name) for name in ("c++", "g++", "clang++"))
    hint = "; `pip install -v --no-deps --no-build-isolation -e .` shows the compiler's errors"
    print(f"The slow reference engine will be used: {reason}{hint if has_compiler else ''}.")
    sys.exit(1 if has_compiler else 0)
