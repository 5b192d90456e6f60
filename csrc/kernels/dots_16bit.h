// What dot products with sums of 16 bits need, see dots.h.

namespace oneglance::ONEGLANCE_ISA {
namespace {

constexpr int kMiddle5 = 16;  // what the bias subtracts from 5-bit values
constexpr int kMiddle6 = 32;  // and from 6-bit values

// Q4_0 has a zero point; of 5 bits the bias has subtracted one, which not all forms have.
template <Values V, Scales S>
constexpr bool has_offset = (V == Values::k4Bit && S == Scales::kHalf) || V == Values::k5Bit;

// bias[0] for both halves of the group, 5-bit values.
inline void set_group_bias(RowGroup& group);
// bias[h] for each half, 6-bit values.
inline void set_half_biases(RowGroup& group);

inline void set_biases(RowGroup& group, const PackedMatrix& w, int32_t sum) {
  group.offset = (w.zero_point - (w.values == Values::k5Bit ? kMiddle5 : 0)) * sum;
  if (w.values == Values::k5Bit) set_group_bias(group);
  if (w.values == Values::k6Bit) set_half_biases(group);
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
