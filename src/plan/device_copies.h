// SPDX-License-Identifier: MIT
// Which inputs and results of a plan may lie in its device's memory.
#pragma once

#include "plan/plan.h"

namespace lathe {

// Copies of the device read and write memory of any space.
bool is_device_copy(const Launch& launch);
// Whether nothing else reads input `at` of main, or it lies there in any case.
bool reads_on_device(const Plan& plan, size_t at);
// Likewise, writes result `at` of main.
bool writes_on_device(const Plan& plan, size_t at);

}  // namespace lathe
