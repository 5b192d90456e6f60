#!/bin/sh
# Runs the tests of the kernels on a build with AddressSanitizer and UBSan.
# Usage: csrc/sanitize.sh PYTHON [PYTEST_ARGUMENT...]
set -eu
python=$1
shift
build=build/sanitize
compiler=${CXX:-c++}
"$python" -m cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$("$python" -c "import sys; print(sys.executable)")" \
  -DCMAKE_MAKE_PROGRAM="$("$python" -c 'import ninja; print(ninja.BIN_DIR)')/ninja" \
  -DONEGLANCE_SANITIZE=address,undefined >/dev/null
"$python" -m cmake --build "$build" -- -v >"$build/log" 2>&1 || { cat "$build/log"; exit 1; }
# The sanitizer must be loaded before anything that allocates; libstdc++ with it, so that it sees
# exceptions. Python itself leaks on purpose.
libraries=$("$compiler" -print-file-name=libasan.so):$("$compiler" -print-file-name=libstdc++.so.6)
LD_PRELOAD=$libraries ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
  ONEGLANCE_TEST_NATIVE=$build "$python" -m pytest -q -n 2 --dist loadscope -p no:cacheprovider tests/native \
  --ignore tests/native/test_native_default_model.py --ignore tests/native/test_factory.py \
  --ignore tests/native/test_isas.py \
  --deselect tests/native/test_native_bits.py::test_trees_of_any_shape_equal_chains "$@"
