// Packed matrices in Python: packing, products and, for tests and benchmarks, their parts.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <numeric>
#include <stdexcept>

#include "bindings.h"
#include "float_environment.h"
#include "pack.h"
#include "runtime.h"
#include "shared_work.h"

namespace oneglance {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Tokens = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool is_met, const std::string& otherwise) {
  if (!is_met) throw std::invalid_argument(otherwise);
}

template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> to_numpy(std::vector<T> values, size_t rows,
                                                size_t columns) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return {kept->data(), {rows, columns}, owner};
}

// Quantised activations that own their arrays.
struct OwnedRows {
  OwnedRows(int num_rows, int num_inputs, int num_planes)
      : rows(num_rows),
        inputs(num_inputs),
        planes(num_planes),
        values(static_cast<size_t>(num_rows) * num_planes * num_inputs),
        scales(values.size() / kGroup),
        sums(values.size() / kGroup) {}

  QuantizedRows view() { return {values.data(), scales.data(), sums.data(), planes}; }

  // One of the arrays, [rows * planes, columns].
  template <typename T>
  nb::ndarray<nb::numpy, T, nb::ndim<2>> copy_of(const std::vector<T>& items, int columns) const {
    return to_numpy(items, static_cast<size_t>(rows) * planes, columns);
  }

  int rows;
  int inputs;
  int planes;
  std::vector<int8_t> values;
  std::vector<float> scales;
  std::vector<int32_t> sums;
};

void quantize_into(const Runtime& runtime, const float* x, OwnedRows& quantized) {
  runtime.pool->run([&](int index, int count) {
    const Range groups = part_of(quantized.inputs / kGroup, index, count);
    runtime.kernels.quantize_rows(x, quantized.inputs, quantized.rows, quantized.inputs,
                                  quantized.view(), groups.begin, groups.end);
  });
}

OwnedRows quantize_rows(const Runtime& runtime, const Floats& x, int planes) {
  require(1 <= planes && planes <= kMaxPlanes,
          "planes must be 1 or 2, not " + std::to_string(planes));
  require(x.shape(1) > 0 && x.shape(1) % kGroup == 0, "rows must be a multiple of 32 long");
  OwnedRows quantized(static_cast<int>(x.shape(0)), static_cast<int>(x.shape(1)), planes);
  nb::gil_scoped_release release;
  quantize_into(runtime, x.data(), quantized);
  return quantized;
}

nb::ndarray<nb::numpy, float, nb::ndim<2>> matmul(const Runtime& runtime, const PackedMatrix& w,
                                                  const Floats& x) {
  require(x.shape(1) == static_cast<size_t>(w.inputs),
          "rows of " + std::to_string(x.shape(1)) +
              " values cannot be multiplied with a matrix of " + std::to_string(w.inputs) +
              " inputs");
  const int rows = static_cast<int>(x.shape(0));
  std::vector<float> y(static_cast<size_t>(rows) * w.outputs);
  {
    nb::gil_scoped_release release;
    OwnedRows quantized(rows, w.inputs, w.activation_planes);
    if (!w.has_floats()) quantize_into(runtime, x.data(), quantized);
    const Activations activations{x.data(), quantized.view()};
    runtime.pool->run([&](int index, int count) {
      multiply(runtime.kernels, w, activations, rows, y.data(), w.outputs,
               part_of(w.num_tiles(), index, count));
    });
  }
  return to_numpy(std::move(y), rows, w.outputs);
}

void require_fit(const PackedMatrix& w, const OwnedRows& x) {
  require(!w.has_floats(), "weights that are floats are not multiplied with quantised rows");
  require(x.inputs == w.inputs, "rows and matrix differ in their number of inputs");
  require(x.planes >= w.activation_planes,
          "the matrix takes activations in " + std::to_string(w.activation_planes) +
              " planes, of which the rows have " + std::to_string(x.planes));
}

void matmul_tiles(const Runtime& runtime, const PackedMatrix& w, OwnedRows& x, const FloatsOut& y,
                  int tile_begin, int tile_end) {
  require_fit(w, x);
  require(y.shape(0) == static_cast<size_t>(x.rows) && y.shape(1) == static_cast<size_t>(w.outputs),
          "the result must be of shape [rows, outputs]");
  require(0 <= tile_begin && tile_begin <= tile_end && tile_end <= w.num_tiles(),
          "tiles out of range");
  nb::gil_scoped_release release;
  const FloatEnvironment environment;
  runtime.kernels.matmul(w, x.view(), x.rows, y.data(), w.outputs, tile_begin, tile_end);
}

std::vector<float> embed_tokens(const Runtime& runtime, const PackedMatrix& w,
                                const int32_t* tokens, int rows) {
  std::vector<float> y(static_cast<size_t>(rows) * w.inputs);
  runtime.pool->run([&](int index, int count) {
    const Range part = part_of(rows, index, count);
    runtime.kernels.embed(w, tokens + part.begin, part.end - part.begin,
                          y.data() + int64_t{part.begin} * w.inputs, w.inputs);
  });
  return y;
}

nb::ndarray<nb::numpy, float, nb::ndim<2>> embed(const Runtime& runtime, const PackedMatrix& w,
                                                 const Tokens& tokens) {
  const int rows = static_cast<int>(tokens.shape(0));
  for (int r = 0; r < rows; ++r) {
    require(tokens.data()[r] >= 0 && tokens.data()[r] < w.outputs,
            "token " + std::to_string(tokens.data()[r]) + " is outside the embedding of " +
                std::to_string(w.outputs));
  }
  std::vector<float> y;
  {
    nb::gil_scoped_release release;
    y = embed_tokens(runtime, w, tokens.data(), rows);
  }
  return to_numpy(std::move(y), rows, w.inputs);
}

nb::ndarray<nb::numpy, float, nb::ndim<2>> unpack(const Runtime& runtime, const PackedMatrix& w) {
  std::vector<float> y;
  {
    nb::gil_scoped_release release;
    std::vector<int32_t> all(w.outputs);
    std::iota(all.begin(), all.end(), 0);
    y = embed_tokens(runtime, w, all.data(), w.outputs);
  }
  return to_numpy(std::move(y), w.outputs, w.inputs);
}

// Seconds of one sweep over all matrices, one after the other as a model has them.
double time_sweep(const Runtime& runtime, const std::vector<const PackedMatrix*>& matrices,
                  OwnedRows& x) {
  int most_outputs = 0;
  for (const PackedMatrix* w : matrices) {
    require_fit(*w, x);
    most_outputs = w->outputs > most_outputs ? w->outputs : most_outputs;
  }
  std::vector<float> y(static_cast<size_t>(x.rows) * most_outputs);
  nb::gil_scoped_release release;
  runtime.pool->run([](int, int) {});  // wakes the workers
  const auto start = std::chrono::steady_clock::now();
  runtime.pool->run([&](int index, int count) {
    for (const PackedMatrix* w : matrices) {
      const Range tiles = part_of(w->num_tiles(), index, count);
      runtime.kernels.matmul(*w, x.view(), x.rows, y.data(), w->outputs, tiles.begin, tiles.end);
      runtime.pool->barrier();
    }
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Seconds to read an array once, a plain sum split over the threads: the memory's bandwidth.
double time_read(const Runtime& runtime, const Bytes& data) {
  const size_t num_words = data.nbytes() / sizeof(uint64_t);
  std::vector<uint64_t> sums(static_cast<size_t>(runtime.pool->num_threads()) * 8);
  nb::gil_scoped_release release;
  runtime.pool->run([](int, int) {});
  const auto start = std::chrono::steady_clock::now();
  runtime.pool->run([&](int index, int count) {
    const size_t end = num_words * (index + 1) / count;
    uint64_t sum[16] = {};
    for (size_t i = num_words * index / count; i + 16 <= end; i += 16) {
      uint64_t words[16];
      std::memcpy(words, data.data() + i * sizeof(uint64_t), sizeof words);
      for (int lane = 0; lane < 16; ++lane) sum[lane] += words[lane];
    }
    sums[index * 8] = std::accumulate(sum, sum + 16, uint64_t{0});
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  volatile uint64_t keep = std::accumulate(sums.begin(), sums.end(), uint64_t{0});
  static_cast<void>(keep);
  return seconds;
}

PackedMatrix pack_array(const Bytes& data, const std::string& quantization, int outputs, int inputs,
                        int num_threads, const std::string& weights, int activation_planes) {
  nb::gil_scoped_release release;
  return pack(data.data(), data.nbytes(), quantization, float_form(weights), activation_planes,
              outputs, inputs, num_threads);
}

std::string form_name(const PackedMatrix& w) {
  static constexpr const char* kValueNames[] = {"4-bit", "5-bit", "6-bit", "8-bit", "bf16", "f32"};
  static constexpr const char* kScaleNames[] = {"half", "half+min", "super", "super16"};
  if (w.has_floats()) return kValueNames[static_cast<int>(w.values)];
  return std::string(kValueNames[static_cast<int>(w.values)]) + " " +
         kScaleNames[static_cast<int>(w.scales)];
}

void bind_types(nb::module_& module) {
  nb::class_<PackedMatrix>(module, "PackedMatrix",
                           "Weights [outputs, inputs] as the kernels read them.")
      .def_ro("outputs", &PackedMatrix::outputs)
      .def_ro("inputs", &PackedMatrix::inputs)
      .def_prop_ro("num_tiles", &PackedMatrix::num_tiles)
      .def_prop_ro("num_bytes", &PackedMatrix::num_bytes)
      .def_ro("activation_planes", &PackedMatrix::activation_planes,
              "In how many planes of 8 bits products take activations; 0: as float32.")
      .def_prop_ro("form", &form_name);
  nb::class_<OwnedRows>(module, "QuantizedRows",
                        "Activations in planes of 8 bits with a scale per 32 inputs; the planes of "
                        "a row follow each other.")
      .def_ro("planes", &OwnedRows::planes)
      .def_prop_ro("values", [](const OwnedRows& x) { return x.copy_of(x.values, x.inputs); },
                   nb::rv_policy::move)
      .def_prop_ro("scales",
                   [](const OwnedRows& x) { return x.copy_of(x.scales, x.inputs / kGroup); },
                   nb::rv_policy::move)
      .def_prop_ro("sums",
                   [](const OwnedRows& x) { return x.copy_of(x.sums, x.inputs / kGroup); },
                   nb::rv_policy::move);
}

}  // namespace

void bind_matmul(nb::module_& module) {
  bind_types(module);
  module.def("why_unpackable", &why_unpackable, nb::arg("quantization"), nb::arg("inputs"),
             "Why a matrix of this type and width cannot be packed; empty if it can.");
  module.def("pack", &pack_array, nb::arg("data"), nb::arg("quantization"), nb::arg("outputs"),
             nb::arg("inputs"), nb::arg("num_threads"), nb::arg("weights") = "auto",
             nb::arg("activation_planes") = 1,
             "Packs a matrix from its bytes in the file; `weights` says what becomes of floats: "
             "8-bit groups (auto), bf16 or f32. Products with 8-bit weights that have one scale "
             "can take activations in 2 planes of 8 bits. ValueError if that is impossible.");
  module.def("unpack", &unpack, nb::arg("runtime"), nb::arg("matrix"),
             "The weights as float32 [outputs, inputs].");
  module.def("quantize_rows", &quantize_rows, nb::arg("runtime"), nb::arg("x"),
             nb::arg("planes") = 1, "Activations [R, inputs] in planes of 8 bits.");
  module.def("matmul", &matmul, nb::arg("runtime"), nb::arg("matrix"), nb::arg("x"),
             "x [R, inputs], quantised where the weights are integers, times the matrix: float32 "
             "[R, outputs].");
  module.def("matmul_tiles", &matmul_tiles, nb::arg("runtime"), nb::arg("matrix"), nb::arg("x"),
             nb::arg("y"), nb::arg("tile_begin"), nb::arg("tile_end"),
             "Writes the outputs of some tiles into y [R, outputs], on the calling thread.");
  module.def("embed", &embed, nb::arg("runtime"), nb::arg("matrix"), nb::arg("tokens"),
             "Dequantised rows of a matrix: float32 [R, inputs].");
  module.def("time_sweep", &time_sweep, nb::arg("runtime"), nb::arg("matrices"), nb::arg("x"),
             "Seconds of one sweep of products over all matrices.");
  module.def("time_read", &time_read, nb::arg("runtime"), nb::arg("data"),
             "Seconds to read an array once.");
}

}  // namespace oneglance
