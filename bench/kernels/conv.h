// SPDX-License-Identifier: MIT
// Lathe's convolutions: channels last, in the form that the library selects.
#pragma once

#include "bench/kernels/adapter.h"

namespace lathe::bench {

std::unique_ptr<Ready> prepare_conv(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
