// Single kernels in Python, for tests and benchmarks.
#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "bind_arrays.h"
#include "float_environment.h"
#include "layer.h"

#define ONEGLANCE_ISA binding
#include "kernels/exp.h"

namespace oneglance {
namespace {

void require_positions(const int32_t* positions, int count, int context) {
  for (int i = 0; i < count; ++i) {
    if (positions[i] >= 0 && positions[i] < context) continue;
    throw std::out_of_range("position " + std::to_string(positions[i]) +
                            " lies outside the rotary tables");
  }
}

NewFloats bound_rms_norm(const Runtime& runtime, const Floats& x, const Floats& weight,
                         float eps) {
  require_shape(x, {-1, -1}, "x");
  const int rows = length_of(x, 0);
  const int size = length_of(x, 1);
  require(size >= 1, "x must have at least one column");
  require_shape(weight, {size}, "weight");
  NewFloats y = empty({x.shape(0), x.shape(1)});
  const FloatEnvironment environment;
  runtime.kernels.rms_norm(x.data(), size, weight.data(), eps, rows, size, y.data(), size);
  return y;
}

NewFloats bound_rope(const Runtime& runtime, const Floats& heads, const Ints& positions,
                     const Floats& cos, const Floats& sin) {
  require_shape(heads, {-1, -1, -1}, "heads");
  const int rows = length_of(heads, 0);
  const int num_heads = length_of(heads, 1);
  const int head_dim = length_of(heads, 2);
  const RopeTables tables = rope_tables(cos, sin);
  require(head_dim == 2 * tables.half_dim, "the rotary tables fit another head_dim");
  require_shape(positions, {rows}, "positions");
  require_positions(positions.data(), rows, tables.context);
  NewFloats result = empty({heads.shape(0), heads.shape(1), heads.shape(2)});
  std::copy_n(heads.data(), heads.size(), result.data());
  const FloatEnvironment environment;
  runtime.kernels.rope(result.data(), static_cast<int64_t>(num_heads) * head_dim, rows, num_heads,
                       head_dim, tables.cos.data(), tables.sin.data(), positions.data());
  return result;
}

NewFloats bound_swiglu(const Runtime& runtime, const Floats& gate, const Floats& up) {
  require_shape(gate, {-1, -1}, "gate");
  const int rows = length_of(gate, 0);
  const int size = length_of(gate, 1);
  require_shape(up, {rows, size}, "up");
  NewFloats y = empty({gate.shape(0), gate.shape(1)});
  const FloatEnvironment environment;
  runtime.kernels.swiglu(gate.data(), up.data(), size, rows, 0, size, y.data(), size);
  return y;
}

NewFloats bound_exp(const Floats& x) {
  require_shape(x, {-1}, "x");
  NewFloats y = empty({x.shape(0)});
  for (std::size_t i = 0; i < x.size(); ++i) {
    binding::store_first(y.data() + i, 1, binding::exp(binding::broadcast(x.data()[i])));
  }
  return y;
}

// Writes keys and values of the rows of a pass, [rows, kv_heads, head_dim] each, to the cache.
void bound_store_kv(const Runtime& runtime, const Pass& pass, KvCache& cache, int layer,
                    const Floats& keys, const Floats& values) {
  const int64_t ld = static_cast<int64_t>(cache.num_kv_heads()) * cache.head_dim();
  require_shape(keys, {pass.num_rows(), cache.num_kv_heads(), cache.head_dim()}, "keys");
  require_shape(values, {pass.num_rows(), cache.num_kv_heads(), cache.head_dim()}, "values");
  const std::lock_guard<std::mutex> guard(cache.mutex);
  check_cache(pass, cache, layer, cache.num_kv_heads());
  for (const PassSequence& sequence : pass.sequences()) {
    for (int kv_head = 0; kv_head < cache.num_kv_heads(); ++kv_head) {
      const int64_t offset = sequence.first_row * ld + int64_t{kv_head} * cache.head_dim();
      runtime.kernels.store_kv({cache.head(layer, kv_head), sequence.pages, sequence.first_slot(),
                                sequence.num_rows, keys.data() + offset, values.data() + offset,
                                ld});
    }
  }
}

NewFloats bound_attend(const Pass& pass, KvCache& cache, int layer, Workspace& workspace,
                       const Floats& queries) {
  require_shape(queries, {pass.num_rows(), -1, cache.head_dim()}, "queries");
  NewFloats mixed = empty({queries.shape(0), queries.shape(1), queries.shape(2)});
  const float* source = queries.data();
  float* target = mixed.data();
  const int num_heads = length_of(queries, 1);
  {
    const nb::gil_scoped_release release;
    attend(pass, cache, layer, num_heads, workspace, source, target);
  }
  return mixed;
}

}  // namespace

void bind_kernels(nb::module_& module) {
  module.def("rms_norm", &bound_rms_norm, nb::arg("runtime"), nb::arg("x").noconvert(),
             nb::arg("weight").noconvert(), nb::arg("eps"), "Norm of the rows of x [R, D].");
  module.def("rope", &bound_rope, nb::arg("runtime"), nb::arg("heads").noconvert(),
             nb::arg("positions").noconvert(), nb::arg("cos").noconvert(),
             nb::arg("sin").noconvert(), "Rotated copy of heads [R, heads, head_dim]; for tests.");
  module.def("swiglu", &bound_swiglu, nb::arg("runtime"), nb::arg("gate").noconvert(),
             nb::arg("up").noconvert(), "silu(gate) * up, [R, F] each; for tests.");
  module.def("exp", &bound_exp, nb::arg("x").noconvert(),
             "The kernels' exponential function of x [N]; for tests.");
  module.def("store_kv", &bound_store_kv, nb::arg("runtime"), nb::arg("pass_"), nb::arg("cache"),
             nb::arg("layer"), nb::arg("keys").noconvert(), nb::arg("values").noconvert(),
             "Writes keys and values [R, kv_heads, head_dim] of a pass to the cache; for tests.");
  module.def("attend", &bound_attend, nb::arg("pass_"), nb::arg("cache"), nb::arg("layer"),
             nb::arg("workspace"), nb::arg("queries").noconvert(),
             "Attention alone, [R, heads, head_dim] to the same shape; for tests, benchmarks.");
}

}  // namespace oneglance
