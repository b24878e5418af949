// SPDX-License-Identifier: MIT
// Weights that matmul_n_bits packs from what quantize_blocks would quantise or split, some columns
// at a time.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "ops/support/weight_columns.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"

namespace lathe::cpu {

// The deferred quantize_blocks of a constant whose results are the codes, scales and, if it makes
// them, zero points of the matmul_n_bits (alone or in a gated GEMM) or gather_n_bits; null:
// there is none, or compiled files receive what it makes.
const Instruction* source_of_columns(const Instruction& user);

// The constants that the quantize_blocks reads: one, or several whose rows are joined.
std::vector<const Tensor*> source_tensors(const Instruction& quantize_blocks);

// Their columns, one constant's after another's.
class SourceColumns {
 public:
  SourceColumns(const Instruction& quantize_blocks, FitBlock fit);
  const ColumnForm& form() const { return parts_.front().form(); }  // but the columns
  // The sizes of the columns, and the form in which they are held if it is smaller than the plain
  // one.
  void hold(WeightOnlyProblem& problem) const;
  // As WeightColumns; the columns are of one constant.
  void make(int64_t first, int64_t count, const WeightOnlyColumns& to) const;
  void make_compact(int64_t first, int64_t count, const CompactColumns& to) const;
  // Makes the parts of 1 MiB that end in these columns non-resident, if columns are consecutive in
  // a mapped file.
  void release(int64_t first, int64_t count) const;

 private:
  size_t part_of(int64_t& first) const;
  std::vector<Tensor> sources_;
  std::vector<WeightColumns> parts_;
  bool columns_are_rows_ = false;
};

// The sizes of the columns, and the form in which they are held if it is smaller than the plain
// one.
void hold(const WeightColumns& columns, WeightOnlyProblem& problem);
// As pack_compact(), in parts so small that all threads of the pool have some of each matrix.
void pack_compact_parts(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                        const MakeCompactColumns& make, void* packed, ThreadPool* pool);
// Differs for columns that differ: the attributes.
std::string columns_id(const Instruction& quantize_blocks);

}  // namespace lathe::cpu
