// SPDX-License-Identifier: MIT
#include "ops/support/cosine_window.h"

namespace lathe {

static const Register hann_window{{
    .name = "hann_window",
    .doc = "A Hann window of `size` elements.",
    .operands = {{"size", kIndices}},
    .attributes = cosine_window_attributes(),
    .on_host = {0},
    .infer = infer_cosine_window,
    .eval = [](Evaluation& c) { eval_cosine_window(c, {0.5, 0.5, 0}); },
}};

}  // namespace lathe
