// Turns the form of a packed matrix into template arguments. Included once per instruction set.

namespace oneglance::ONEGLANCE_ISA {
namespace {

template <Values V>
struct ValuesTag {
  static constexpr Values value = V;
};
template <Scales S>
struct ScalesTag {
  static constexpr Scales value = S;
};

// Calls function(ValuesTag, ScalesTag) of a matrix of integers. These are all that `pack` makes.
template <typename Function>
inline void with_form(const PackedMatrix& w, Function&& function) {
  const auto with_three = [&](auto values) {
    switch (w.scales) {
      case Scales::kHalf: return function(values, ScalesTag<Scales::kHalf>{});
      case Scales::kHalfMin: return function(values, ScalesTag<Scales::kHalfMin>{});
      case Scales::kSuper: return function(values, ScalesTag<Scales::kSuper>{});
      case Scales::kSuper16: return;  // only with 6 bits
      case Scales::kNone: return;     // only with floats
    }
  };
  switch (w.values) {
    case Values::k4Bit: return with_three(ValuesTag<Values::k4Bit>{});
    case Values::k5Bit: return with_three(ValuesTag<Values::k5Bit>{});
    case Values::k6Bit: return function(ValuesTag<Values::k6Bit>{}, ScalesTag<Scales::kSuper16>{});
    case Values::k8Bit: return function(ValuesTag<Values::k8Bit>{}, ScalesTag<Scales::kHalf>{});
    case Values::kBf16: return;
    case Values::kF32: return;
  }
}

// Calls function(ValuesTag) of a matrix of floats.
template <typename Function>
inline void with_float_form(const PackedMatrix& w, Function&& function) {
  if (w.values == Values::kBf16) return function(ValuesTag<Values::kBf16>{});
  function(ValuesTag<Values::kF32>{});
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
