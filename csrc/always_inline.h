// For functions that sources of several instruction sets share: the linker must not merge an
// out-of-line copy compiled for a newer CPU into code that an older one runs.
#pragma once

#define ONEGLANCE_INLINE inline __attribute__((always_inline))
// The same for a lambda, between its parameters and its body.
#define ONEGLANCE_LAMBDA __attribute__((always_inline))
