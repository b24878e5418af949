// SPDX-License-Identifier: MIT
// Normalisations of rows, ops of their own or before a product.
#pragma once

#include <memory>
#include <string>

#include "targets/gpu/kernel.h"

namespace lathe::gpu {

bool is_norm(const Op& op);     // without a sum before it
bool is_centred(const Op& op);  // by the mean, not by the mean square alone
std::string why_no_norm(const Instruction& instruction);
std::unique_ptr<const Kernel> make_norm(const GpuDevice& device, const Instruction& instruction);
// Sums that a row's elements are added to before those are added: however many threads there are.
int64_t norm_threads(int64_t columns, int64_t bytes);
// The stride of factors per column; 0: all columns have the same.
int64_t column_stride(const TensorView* view);

}  // namespace lathe::gpu
