// SPDX-License-Identifier: MIT
#include "targets/cpu/generated_rows.h"

#include <algorithm>
#include <array>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ops/interpret/access.h"
#include "targets/cpu/kernel_form.h"
#include "targets/cpu/row_region.h"

namespace lathe::cpu {
namespace {

using codegen::KernelCall;
using interpret::Access;
using interpret::Layout;

int64_t bytes_of(const Access& access) { return info(access.type).bits / 8; }

// A row by its index on each axis before the last.
struct Row {
  std::array<int64_t, kMaxRank> index{};
  int64_t left = 1;  // rows of the innermost axis from it on

  Row(const Layout& rows, int64_t row) {
    for (int axis = rows.rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      index[a] = axis == 0 ? row : row % rows.dims[a];
      row = axis == 0 ? 0 : row / rows.dims[a];
      if (axis == rows.rank - 1) left = rows.dims[a] - index[a];
    }
  }
  std::byte* of(const Layout& rows, const Access& access) const {
    int64_t offset = 0;
    for (size_t a = 0; a < static_cast<size_t>(rows.rank); ++a) {
      offset += index[a] * access.strides[a];
    }
    return access.data + offset * bytes_of(access);
  }
};

}  // namespace

std::unique_ptr<const GeneratedRows> GeneratedRows::make(
    std::span<const Value* const> operands, std::span<const Instruction* const> instructions,
    Isa isa) {
  KernelForm form(operands);
  for (const Instruction* instruction : instructions) {
    if (why_no_rows(*instruction).empty()) {
      form.add_rows(*instruction);
    } else if (!form.add(*instruction, instruction == instructions.back())) {
      return nullptr;
    }
  }
  form.store(*instructions.back()->result());
  std::unique_ptr<GeneratedRows> out(new GeneratedRows);
  out->work_ = static_cast<int64_t>(form.kernel.form.nodes().size());
  out->operands_ = form.operands;
  out->variants_ = KernelVariants::make(std::move(form.kernel), isa);
  return out->variants_ == nullptr ? nullptr : std::move(out);
}

bool GeneratedRows::run(std::span<const TensorView* const> in, const TensorView& y,
                        ThreadPool* pool) const {
  const auto last = static_cast<size_t>(y.rank - 1);
  const int64_t columns = y.dims[last];
  const auto count = static_cast<float>(columns);
  interpret::AccessList<codegen::kMaxOperands> accesses;
  uint32_t one_per_row = 0;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const int operand = operands_[i];
    if (operand < 0) {
      void* data = operand == KernelForm::kColumns ? const_cast<float*>(&count) : nullptr;
      accesses.add({.data = static_cast<std::byte*>(data)});
      if (operand == KernelForm::kColumns) one_per_row |= 1u << i;
      continue;
    }
    const Access access = interpret::access_to(*in[static_cast<size_t>(operand)], y, operand);
    const int64_t along = access.strides[last];
    if (along != 0 && along != 1) return false;
    if (along == 0) one_per_row |= 1u << i;
    accesses.add(access);
  }
  if (y.strides[last] != 1 && columns != 1) return false;
  accesses.add({.data = static_cast<std::byte*>(y.data), .type = y.type, .strides = y.strides});
  const codegen::GeneratedKernel* kernel = variants_->find(one_per_row);
  if (kernel == nullptr) return false;

  const std::span<Access> all = accesses.all();
  Layout rows{.rank = y.rank - 1, .dims = y.dims};
  interpret::collapse(rows, all);
  const int64_t lines = rows.count();
  constexpr int64_t kWork = 1 << 18;  // operations of a task, at least
  const int64_t grain = std::max<int64_t>(kWork / (work_ + 8) / columns, 1);
  // Rows of a call: their temporary memory stays in the L1 cache, and each hides the latency of
  // another one's reductions.
  constexpr int64_t kMaxRows = 8, kTemporaries = 4096;
  const int64_t most = std::clamp<int64_t>(kTemporaries / columns, 1, kMaxRows);
  parallel_for(pool, lines, grain, [&](int64_t begin, int64_t end) {
    const ScratchArray<float> temporary(most * columns);
    std::array<float, kMaxRows * codegen::kMaxScalars> scalars;
    KernelCall call{.columns = columns};
    call.scalars = scalars.data();
    const auto is_temporary = [&](size_t i) {
      return i < operands_.size() && operands_[i] == KernelForm::kTemporary;
    };
    for (size_t i = 0; i < all.size(); ++i) {
      if (is_temporary(i)) {
        call.operands[i].row_stride = columns * static_cast<int64_t>(sizeof(float));
      } else if (rows.rank > 0) {
        call.operands[i].row_stride =
            all[i].strides[static_cast<size_t>(rows.rank - 1)] * bytes_of(all[i]);
      }
    }
    while (begin < end) {
      const Row row(rows, begin);
      call.rows = std::min({end - begin, row.left, most});
      for (size_t i = 0; i < all.size(); ++i) {
        call.operands[i].data =
            is_temporary(i) ? reinterpret_cast<std::byte*>(temporary.data()) : row.of(rows, all[i]);
      }
      begin += call.rows;
      kernel->run(call);
    }
  });
  return true;
}

}  // namespace lathe::cpu
