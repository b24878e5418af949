// SPDX-License-Identifier: MIT
// RoPE for the heads of packed tokens.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/support/gqa.h"
#include "ops/support/step_tables.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"

namespace lathe::cpu {

// Row of a head in [1, heads, rows, size].
inline std::byte* row_at(const TensorView& heads, int64_t head, int64_t row) {
  return heads.as<std::byte>() +
         (head * heads.strides[1] + row * heads.strides[2]) * (info(heads.type).bits / 8);
}

class Rope {
 public:
  struct Operands {
    int cos;
    int sin;
    int positions;
  };
  // Reads f32 cos and sin caches in place. Other types use the reference.
  Rope(const GqaAttributes& a, const OpCall& c, const Operands& operands, const GqaHeads& heads,
       std::span<const StepItem> items, Isa isa);

  bool in_place() const { return in_place_; }
  bool uses_reference() const { return uses_reference_; }
  void angles(std::span<const StepItem> items, std::vector<int64_t>& all) const;
  void rotate(const std::byte* from, const StepItem& item, int64_t row, std::byte* to) const {
    const int64_t at = angle(item, row) * half_;
    rotate_(reinterpret_cast<const float*>(from), cos_ + at, sin_ + at, half_, size_,
            reinterpret_cast<float*>(to));
  }

 private:
  int64_t angle(const StepItem& item, int64_t row) const;

  decltype(RowOps::rotate) rotate_;
  int64_t size_;
  int64_t half_ = 0;
  TensorView given_;
  const float* cos_ = nullptr;
  const float* sin_ = nullptr;
  bool in_place_ = false;
  bool uses_reference_ = false;
};

}  // namespace lathe::cpu
