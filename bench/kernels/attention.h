// SPDX-License-Identifier: MIT
#pragma once

#include "bench/kernels/adapter.h"

namespace lathe::bench {

// Parameters: see attention.cpp.
std::unique_ptr<Ready> prepare_attention(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
