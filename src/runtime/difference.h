// SPDX-License-Identifier: MIT
// How far two values are apart.
#pragma once

#include <string>

#include "tensor/box.h"

namespace lathe {

// What a value may differ by.
struct Tolerance {
  double relative = 0;  // max|a - b| over max|b|; 0: by the element type
  double absolute = 0;  // what max|a - b| may be in any case
  int64_t steps = 0;    // of integers
};

struct Difference {
  double error = 0;  // max|a - b| / max|b|; 0 where both are empty
  double limit = 0;  // what it may be
  std::string text;  // what is wrong; empty: nothing

  bool equal() const { return text.empty(); }
};

// The relative error that results of this element type may have when computed in another order;
// 0 for integers, bools and texts.
double usual_error(ElementType type);

// NaNs must meet NaNs, infinities equal ones; integers, bools and texts must be equal.
Difference compare_values(const Box& actual, const Box& expected, const Tolerance& tolerance = {});

// Rows along the last axis as logits: how far the distributions they stand for are apart.
struct Divergence {
  double mean_kl = 0;  // of softmax(expected) from softmax(actual), in nats
  double top1 = 1;     // share of rows with the same largest element
  double noise = 0;    // |actual - expected| over |expected|, as vectors
  int64_t rows = 0;
};
Divergence compare_distributions(const Tensor& actual, const Tensor& expected);

}  // namespace lathe
