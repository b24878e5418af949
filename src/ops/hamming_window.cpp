// SPDX-License-Identifier: MIT
#include "ops/support/cosine_window.h"

namespace lathe {

static const Register hamming_window{{
    .name = "hamming_window",
    .doc = "A Hamming window of `size` elements.",
    .operands = {{"size", kIndices}},
    .attributes = cosine_window_attributes(),
    .on_host = {0},
    .infer = infer_cosine_window,
    .eval = [](Evaluation& c) { eval_cosine_window(c, {25.0 / 46, 21.0 / 46, 0}); },
}};

}  // namespace lathe
