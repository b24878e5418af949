// SPDX-License-Identifier: MIT
#pragma once

#include "bench/kernels/adapter.h"

namespace lathe::bench {

// lstm and gru: see recurrent.cpp for their numbers.
std::unique_ptr<Ready> prepare_recurrent(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
