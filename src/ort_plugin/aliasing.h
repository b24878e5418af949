// SPDX-License-Identifier: MIT
// Outputs that may be written over an input: KV caches updated in place.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace lathe::ort_plugin {

// For each result of main the parameter that it may replace in the same memory, if both have the
// same shape in a run: the past of an attention that writes new tokens behind it, and that no later
// launch reads. -1: none.
std::vector<int> replaced_inputs(const Plan& plan);

}  // namespace lathe::ort_plugin
