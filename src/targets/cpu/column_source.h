// SPDX-License-Identifier: MIT
// Weights that matmul_n_bits packs from what quantize_blocks would quantise or split, some columns
// at a time.
#pragma once

#include <string>

#include "ir/program.h"
#include "ops/support/weight_columns.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"

namespace lathe::cpu {

// The deferred quantize_blocks of a constant whose results are the codes, scales and, if it makes
// them, zero points of the matmul_n_bits or gather_n_bits; null: there is none, or compiled files
// receive what it makes.
const Instruction* source_of_columns(const Instruction& user);

// The constant that the quantize_blocks reads.
const Tensor& source_tensor(const Instruction& quantize_blocks);
WeightColumns columns_of(const Instruction& quantize_blocks, FitBlock fit);
// The sizes of the columns, and the form in which they are held if it is smaller than the plain
// one.
void hold(const WeightColumns& columns, WeightOnlyProblem& problem);
// Differs for columns that differ: the attributes.
std::string columns_id(const Instruction& quantize_blocks);

// Makes the parts of 1 MiB that end in these columns non-resident, if columns are consecutive in a
// mapped file.
void release_columns(const Instruction& quantize_blocks, int64_t first, int64_t count);

}  // namespace lathe::cpu
