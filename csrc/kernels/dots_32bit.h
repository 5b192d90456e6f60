// What dot products with sums of 32 bits need, see dots.h: these start from what the zero point
// subtracts, so that nothing is left to do afterwards.

namespace oneglance::ONEGLANCE_ISA {
namespace {

template <Values V, Scales S>
constexpr bool has_offset = false;

inline void set_biases(RowGroup& group, const PackedMatrix& w, int32_t sum) {
  const int subtracted = w.zero_point + (w.values == Values::k8Bit ? kAddedTo8Bits : 0);
  if (w.values != Values::k6Bit) {
    group.start[0] = -subtracted * sum;
    return;
  }
  int32_t first_half = 0;
  for (int k = 0; k < kGroup / 2; ++k) first_half += group.values[k];
  group.start[0] = -subtracted * first_half;
  group.start[1] = -subtracted * (sum - first_half);
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
