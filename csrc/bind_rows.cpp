// Operations on rows over the vocabulary, for sampling. They take microseconds, so that the
// interpreter's lock is kept: to get it back could take longer.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bindings.h"
#include "dispatch.h"
#include "require.h"
#include "rows.h"

namespace oneglance {
namespace {

// Of float32 or float64.
using Row = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using DoublesIn = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using IdsIn = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using NewDoubles = nb::ndarray<nb::numpy, double, nb::ndim<1>>;
using NewIds = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

template <typename Item>
nb::ndarray<nb::numpy, Item, nb::ndim<1>> new_array(std::size_t size) {
  auto* data = new Item[size];
  const nb::capsule owner(data, [](void* array) noexcept { delete[] static_cast<Item*>(array); });
  return {data, {size}, owner};
}

NewIds to_array(const Indices& indices) {
  NewIds array = new_array<int64_t>(indices.size());
  std::copy(indices.begin(), indices.end(), array.data());
  return array;
}

// Calls `use` with the row's values as what they are, and its size.
template <typename Use>
auto with_values(const Row& row, Use use) {
  require(row.size() >= 1, "row must not be empty");
  const auto size = static_cast<int64_t>(row.size());
  if (row.dtype() == nb::dtype<float>()) return use(static_cast<const float*>(row.data()), size);
  if (row.dtype() == nb::dtype<double>()) return use(static_cast<const double*>(row.data()), size);
  throw nb::type_error("row must be of float32 or float64");
}

// The same with the row as scores, (value - best) / temperature.
template <typename Use>
auto with_scores(const Row& row, double best, double temperature, Use use) {
  return with_values(row, [&](const auto* values, int64_t size) {
    return use(ScaledRow<std::decay_t<decltype(*values)>>{values, size, best, temperature});
  });
}

struct Rows {
  explicit Rows(const std::string& isa) : table(kernels_for(isa)) {}

  template <typename Value>
  const RowKernels<Value>& of(const Value*) const {
    return row_kernels(table, Value{});
  }

  int64_t argmax(const Row& row) const {
    return with_values(
        row, [&](const auto* values, int64_t size) { return of(values).argmax(values, size); });
  }

  double log_normalizer(const Row& row) const {
    return with_values(row, [&](const auto* values, int64_t size) {
      return oneglance::log_normalizer(table, values, size, of(values).argmax(values, size));
    });
  }

  NewIds ranked(const Row& row, int64_t count) const {
    require(count >= 1, "count must be at least 1");
    return to_array(with_values(row, [&](const auto* values, int64_t size) {
      return oneglance::ranked(of(values), values, size, count);
    }));
  }

  NewIds at_least(const Row& row, double best, double temperature, double floor) const {
    return to_array(with_scores(row, best, temperature, [&](const auto& scores) {
      return oneglance::at_least(of(scores.values), scores, floor);
    }));
  }

  NewIds nucleus(const Row& row, double best, double temperature, double share) const {
    return to_array(with_scores(row, best, temperature, [&](const auto& scores) {
      return oneglance::nucleus(table, scores, share);
    }));
  }

  int64_t draw(const Row& row, double best, double temperature, double uniform) const {
    return with_scores(row, best, temperature, [&](const auto& scores) {
      return oneglance::draw(of(scores.values), scores, uniform);
    });
  }

  NewIds best_with_noise(const Row& row, double best, double temperature,
                         const std::optional<IdsIn>& ids, uint64_t seed, uint64_t choice,
                         uint64_t position, int64_t count) const {
    require(count >= 1, "count must be at least 1");
    require(!ids || ids->size() == row.size(), "row and ids differ in length");
    const auto capacity = std::min<std::size_t>(static_cast<std::size_t>(count), row.size());
    std::vector<double> totals(capacity);
    Indices indices(capacity);
    Podium podium{totals.data(), indices.data(), static_cast<int64_t>(capacity), 0};
    with_scores(row, best, temperature, [&](const auto& scores) {
      const int64_t* tokens = ids ? ids->data() : nullptr;
      of(scores.values).best_with_noise(scores, tokens, {seed, choice, position}, podium);
    });
    indices.resize(static_cast<std::size_t>(podium.size));
    return to_array(indices);
  }

  NewDoubles gumbel(const IdsIn& ids, uint64_t seed, uint64_t choice, uint64_t position) const {
    NewDoubles noise = new_array<double>(ids.size());
    table.gumbel({seed, choice, position}, ids.data(), static_cast<int64_t>(ids.size()),
                 noise.data());
    return noise;
  }

  NewDoubles exp(const DoublesIn& x) const {
    NewDoubles y = new_array<double>(x.size());
    table.exp_doubles(x.data(), static_cast<int64_t>(x.size()), y.data());
    return y;
  }

  double sum(const DoublesIn& x) const {
    return table.sum_doubles(x.data(), static_cast<int64_t>(x.size()));
  }

  double log(double x) const { return table.log_double(x); }

  const KernelTable& table;
};

}  // namespace

void bind_rows(nb::module_& module) {
  const auto row = nb::arg("row").noconvert();
  const auto best = nb::arg("best");
  const auto temperature = nb::arg("temperature");
  nb::class_<Rows>(module, "Rows",
                   "Operations on rows over the vocabulary, defined in sampling/row_kernels.py.")
      .def(nb::init<const std::string&>(), nb::arg("isa"))
      .def_prop_ro("isa", [](const Rows& rows) { return rows.table.name; })
      .def("argmax", &Rows::argmax, row)
      .def("log_normalizer", &Rows::log_normalizer, row)
      .def("ranked", &Rows::ranked, row, nb::arg("count"))
      .def("at_least", &Rows::at_least, row, best, temperature, nb::arg("floor"))
      .def("nucleus", &Rows::nucleus, row, best, temperature, nb::arg("share"))
      .def("draw", &Rows::draw, row, best, temperature, nb::arg("uniform"))
      .def("best_with_noise", &Rows::best_with_noise, row, best, temperature,
           nb::arg("ids").noconvert().none(), nb::arg("seed"), nb::arg("choice"),
           nb::arg("position"), nb::arg("count"))
      .def("gumbel", &Rows::gumbel, nb::arg("ids").noconvert(), nb::arg("seed"),
           nb::arg("choice"), nb::arg("position"))
      .def("exp", &Rows::exp, nb::arg("x").noconvert())
      .def("sum", &Rows::sum, nb::arg("x").noconvert())
      .def("log", &Rows::log, nb::arg("x"));
}

}  // namespace oneglance
