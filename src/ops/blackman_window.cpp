// SPDX-License-Identifier: MIT
#include "ops/support/cosine_window.h"

namespace lathe {

static const Register blackman_window{{
    .name = "blackman_window",
    .doc = "A Blackman window of `size` elements.",
    .operands = {{"size", kIndices}},
    .attributes = cosine_window_attributes(),
    .on_host = {0},
    .infer = infer_cosine_window,
    .eval = [](Evaluation& c) { eval_cosine_window(c, {0.42, 0.5, 0.08}); },
}};

}  // namespace lathe
