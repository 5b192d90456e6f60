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

// Calls function(ValuesTag, ScalesTag) of the matrix. These are all forms that `pack` makes.
template <typename Function>
inline void with_form(const PackedMatrix& w, Function&& function) {
  const auto with_three = [&](auto values) {
    switch (w.scales) {
      case Scales::kHalf: return function(values, ScalesTag<Scales::kHalf>{});
      case Scales::kHalfMin: return function(values, ScalesTag<Scales::kHalfMin>{});
      case Scales::kSuper: return function(values, ScalesTag<Scales::kSuper>{});
      case Scales::kSuper16: return;  // only with 6 bits
    }
  };
  switch (w.values) {
    case Values::k4Bit: return with_three(ValuesTag<Values::k4Bit>{});
    case Values::k5Bit: return with_three(ValuesTag<Values::k5Bit>{});
    case Values::k6Bit: return function(ValuesTag<Values::k6Bit>{}, ScalesTag<Scales::kSuper16>{});
    case Values::k8Bit: return function(ValuesTag<Values::k8Bit>{}, ScalesTag<Scales::kHalf>{});
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
