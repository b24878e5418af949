// SPDX-License-Identifier: MIT
// Window functions that are sums of cosines: blackman_window, hamming_window, hann_window.
#pragma once

#include <array>

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

std::vector<AttributeSpec> cosine_window_attributes();
void infer_cosine_window(Infer& c);
// Element i is a[0] - a[1] cos(2 pi i / n) + a[2] cos(4 pi i / n), where n is the size if periodic,
// else the size minus 1.
void eval_cosine_window(Evaluation& c, const std::array<double, 3>& a);

}  // namespace lathe
