// The parts of the Python module `oneglance._native`.
#pragma once

#include <nanobind/nanobind.h>

namespace oneglance {

namespace nb = nanobind;

void bind_matmul(nb::module_& module);
void bind_chain(nb::module_& module);
void bind_layer(nb::module_& module);
void bind_rows(nb::module_& module);
void bind_suffix(nb::module_& module);

}  // namespace oneglance
