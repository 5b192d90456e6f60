// Float arithmetic as the bits are defined: round to nearest, denormals kept.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace oneglance {

// Holds while it lives, on this thread, and puts back what was there. A library that switches
// flush-to-zero on for a whole process or thread (it takes no more than linking one built with
// -ffast-math) would change the bits of small numbers otherwise.
class FloatEnvironment {
 public:
  FloatEnvironment() : found_(read()) {
    if (is_other()) write(kStandard);
  }
  ~FloatEnvironment() {
    if (is_other()) write(found_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  bool is_other() const { return (found_ & kModes) != kStandard; }

#if defined(__x86_64__)
  using Word = uint32_t;
  static constexpr Word kStandard = 0x1f80;  // all exceptions masked
  static constexpr Word kModes = 0xffc0;     // all but the flags of what has happened
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kStandard = 0;
  static constexpr Word kModes = 0x07ff9f00;  // the control bits of FPCR
  static Word read() {
    Word word;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { __asm__ __volatile__("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = uint32_t;
  static constexpr Word kStandard = 0;
  static constexpr Word kModes = 0;
  static Word read() { return 0; }
  static void write(Word) {}
#endif

  Word found_;
};

}  // namespace oneglance
