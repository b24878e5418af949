// SPDX-License-Identifier: MIT
// Our side of convolutions: activations channels last, the form that the library chooses.
#pragma once

#include "bench/kernels/adapter.h"

namespace lathe::bench {

std::unique_ptr<Ready> prepare_conv(const Problem& problem, ThreadPool& pool);

}  // namespace lathe::bench
