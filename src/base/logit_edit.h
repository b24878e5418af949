// SPDX-License-Identifier: MIT
// A change of one token's logit before the token is chosen.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace lathe {

struct LogitEdit {
  enum class Kind : int32_t {
    add,    // x + value
    set,    // value
    scale,  // x · value if x < 0, else x / value
    grow,   // x + |x| · value; -infinity stays
  };
  int32_t token = 0;
  Kind kind = Kind::add;
  double value = 0;
};

inline float edited(float x, LogitEdit::Kind kind, double value) {
  const auto narrow = static_cast<float>(value);
  switch (kind) {
    case LogitEdit::Kind::add:
      return x + narrow;
    case LogitEdit::Kind::set:
      return narrow;
    case LogitEdit::Kind::scale:
      return x < 0 ? x * narrow : x / narrow;
    case LogitEdit::Kind::grow:
      return x == -std::numeric_limits<float>::infinity()
                 ? x
                 : x + static_cast<float>(std::abs(x) * value);
  }
  return x;
}

}  // namespace lathe
