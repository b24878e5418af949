// SPDX-License-Identifier: MIT
#pragma once

#include "bench/kernels/adapter.h"

namespace lathe::bench {

// attention: see attention.cpp for their numbers.
std::unique_ptr<Ready> prepare_attention(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
