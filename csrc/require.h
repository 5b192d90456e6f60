// Refuses bad arguments; the bindings turn the exception into ValueError.
#pragma once

#include <stdexcept>
#include <string>

namespace oneglance {

inline void require(bool is_valid, const std::string& message) {
  if (!is_valid) throw std::invalid_argument(message);
}

}  // namespace oneglance
