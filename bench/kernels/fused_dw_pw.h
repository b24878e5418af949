// SPDX-License-Identifier: MIT
#pragma once

#include "bench/kernels/adapter.h"

namespace lathe::bench {

std::unique_ptr<Ready> prepare_fused_dw_pw(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
