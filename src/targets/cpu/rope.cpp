// SPDX-License-Identifier: MIT
#include "targets/cpu/rope.h"

#include <algorithm>
#include <array>

#include "tensor/convert.h"

namespace lathe::cpu {

Rope::Rope(const GqaAttributes& a, const OpCall& c, const Operands& operands, const GqaHeads& heads,
           std::span<const StepItem> items, Isa isa)
    : rotate_(a.interleaved ? row_ops(isa).rotate_pairs : row_ops(isa).rotate),
      size_(heads.query.dims[3]) {
  if (!a.do_rotary) return;
  c.check(c.has(operands.cos) && c.has(operands.sin),
          "do_rotary requires cos_cache and sin_cache, got {} operands", c.count());
  const TensorView &cos = c.in(operands.cos), &sin = c.in(operands.sin);
  half_ = cos.dims[static_cast<size_t>(cos.rank - 1)];
  if (c.has(operands.positions)) given_ = c.in(operands.positions);
  const int64_t rows = heads.query.dims[2];
  c.check(given_.data == nullptr || given_.count() == rows, "got {} positions, expected {}",
          given_.count(), rows);
  in_place_ = cos.type == ElementType::f32 && sin.type == ElementType::f32 && cos.is_dense() &&
              sin.is_dense() && cos.count() == sin.count() && half_ > 0 && 2 * half_ <= size_ &&
              heads.query.type == ElementType::f32 && (given_.data == nullptr || given_.is_dense());
  uses_reference_ = !in_place_;
  cos_ = cos.as<float>();
  sin_ = sin.as<float>();
  const int64_t table = half_ == 0 ? 0 : cos.count() / half_;
  for (const StepItem& item : items) {
    for (int64_t i = 0; i < item.count && in_place_; ++i) {
      const int64_t at = angle(item, item.begin + i);
      c.check(at >= 0 && at < table, "position {} is out of range for cos and sin of {} positions",
              at, table);
    }
  }
}

void Rope::angles(std::span<const StepItem> items, std::vector<int64_t>& all) const {
  all.clear();
  for (const StepItem& item : items) {
    for (int64_t i = 0; i < item.count; ++i) all.push_back(angle(item, item.begin + i));
  }
}

int64_t Rope::angle(const StepItem& item, int64_t row) const {
  if (given_.data == nullptr) return item.past + row - item.begin;
  const std::array<int64_t, 3> at = {0, 0, row};
  const auto last = static_cast<size_t>(given_.rank);
  return load_int(
      given_.type, given_.data,
      given_.is_dense() ? row : offset_of(given_, std::span(at).last(std::min<size_t>(last, 3))));
}

}  // namespace lathe::cpu
