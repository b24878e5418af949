// SPDX-License-Identifier: MIT
// What kernels of the target gpu:host touch, instead of times: `perf --count`.
#pragma once

#include "base/options.h"
#include "base/output.h"

namespace lathe::cli {

// From now on the target counts. InvalidArgument if the target is another.
void start_counting(const Options& options);
void print_counts(Output& out);

}  // namespace lathe::cli
