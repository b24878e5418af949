// SPDX-License-Identifier: MIT
#pragma once

#include "bench/kernels/adapter.h"

namespace lathe::bench {

// lstm and gru. Parameters: see recurrent.cpp.
std::unique_ptr<Ready> prepare_recurrent(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
