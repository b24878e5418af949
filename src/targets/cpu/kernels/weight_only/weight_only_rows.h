// SPDX-License-Identifier: MIT
// Rows of activations as the kernels read them: f32, or int8 with a scale per block.
#pragma once

#include <mutex>
#include <vector>

#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "targets/cpu/kernels/weight_only/weight_only_table.h"

namespace lathe::cpu {

// f32 rows times compact weights are kDigits int8 rows each, in blocks of kPanel.
inline constexpr int64_t kDigits = 3, kDigitRows = kPanel / kDigits;

bool has_float_zeros(const WeightOnlyProblem& p);
bool has_digits(const WeightOnlyProblem& p);
bool has_int8_rows(const WeightOnlyProblem& p);

// Byte offsets in the workspace.
struct RowsWorkspace {
  RowsWorkspace(const WeightOnlyProblem& p, const WeightOnlyLayout& layout, int64_t m);
  int64_t width = 0;    // elements of a row along the packed k
  bool stages = false;  // rows are first copied, converted and gathered
  int64_t floats_at = 0, codes_at = 0, scales_at = 0, starts_at = 0, bytes = 0;
};

// An element of a that is infinite or not a number.
struct NonFinite {
  int64_t row = 0;
  int64_t k = 0;
  float value = 0;
};

class WeightOnlyRows {
 public:
  // Blocks have the height of all rows if few are multiplied at once, else kPanel.
  WeightOnlyRows(const WeightOnlyProblem& p, const WeightOnlyLayout& layout, const void* packed,
                 const WeightOnlyCall& call, const WeightOnlyTable& table, bool few);

  // Pads the rows with zeros.
  void prepare(ThreadPool* pool);

  // One row, or a block of rows at its first row, from a block of k on.
  QuantisedRows from(int64_t row, int64_t block) const;
  const QuantisedRows& all() const { return rows_; }
  const float* floats() const { return floats_; }  // staged
  int64_t width() const { return places_.width; }
  int64_t height() const { return height_; }
  int64_t count() const { return count_; }  // that GEMM multiplies, with padding of digits

  // Rows of a block of 16 that are not padding.
  int64_t valid(int64_t row, int64_t rows) const;
  struct RowsOfY {
    int64_t first;
    int64_t count;
  };
  RowsOfY rows_of_y(int64_t row, int64_t valid) const;
  // What digits leave out, in the order of rows and k.
  std::vector<NonFinite> non_finite() const;

 private:
  const float* floats_of(int64_t row) const;
  void stage(int64_t row);
  void prepare_rows(ThreadPool* pool);
  void prepare_digits(ThreadPool* pool);
  void take_non_finite(int64_t row);
  void subtract_quantised(int64_t row, float* left) const;
  void quantise(const float* row_floats, int64_t rows, int64_t row);
  void clear(int64_t row);

  const WeightOnlyProblem& p_;
  const WeightOnlyLayout& layout_;
  const WeightOnlyCall& call_;
  const WeightOnlyTable& table_;
  RowsWorkspace places_;
  const bool int8_;    // rows are quantised
  const bool digits_;  // kDigits of them per row
  int64_t height_;
  int64_t count_;
  float* floats_;
  QuantisedRows rows_;
  const int32_t* gather_;
  std::mutex mutex_;
  std::vector<NonFinite> non_finite_;
};

}  // namespace lathe::cpu
