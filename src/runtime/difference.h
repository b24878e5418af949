// SPDX-License-Identifier: MIT
// Error metrics between values.
#pragma once

#include <string>

#include "tensor/box.h"

namespace lathe {

// Permitted difference of a value.
struct Tolerance {
  double relative = 0;  // max|a - b| over max|b|; 0: by the element type
  double absolute = 0;  // max|a - b| that is always permitted
  int64_t steps = 0;    // |a - b| of integers, where not most of them differ to one side
};

struct Difference {
  double error = 0;  // max|a - b| / max|b|; 0 where both are empty
  double limit = 0;  // permitted error
  std::string text;  // first difference; empty: equal

  bool equal() const { return text.empty(); }
};

// Permitted relative error of results of this element type computed in another order; 0 for
// integers, bools and strings.
double usual_error(ElementType type);

// Compares values. NaNs must be at the same elements; infinities, integers, bools and strings must
// be equal.
Difference compare_values(const Box& actual, const Box& expected, const Tolerance& tolerance = {});

// Distance between the distributions whose logits are the rows along the last axis.
struct Divergence {
  double mean_kl = 0;  // of softmax(expected) from softmax(actual), in nats
  double top1 = 1;     // share of rows with the same largest element
  double noise = 0;    // |actual - expected| over |expected|, as vectors
  int64_t rows = 0;
};
Divergence compare_distributions(const Tensor& actual, const Tensor& expected);

}  // namespace lathe
