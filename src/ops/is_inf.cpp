// SPDX-License-Identifier: MIT
#include <limits>

#include "ir/op.h"

namespace lathe {

static const Register is_inf_op{{
    .name = "is_inf",
    .doc = "Whether x is infinite, of the signs asked for.",
    .operands = {{"x", kFloats | kFloat8}},
    .attributes = {{"detect_negative", 1}, {"detect_positive", 1}},
    .result_element = ElementType::boolean,
    .formula = [](const Formula& f) -> Expr {
      Expr x = f.x(0);
      const double inf = std::numeric_limits<double>::infinity();
      const bool above = f.integer("detect_positive") != 0;
      const bool below = f.integer("detect_negative") != 0;
      Expr yes = x == inf;
      if (above && below) return abs(x) == inf;
      return above ? yes : below ? x == -inf : x != x && x == x;
    },
}};

}  // namespace lathe
