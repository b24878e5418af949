// SPDX-License-Identifier: MIT
#include "targets/cpu/generated_rows.h"

#include <algorithm>
#include <array>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/interpret/access.h"
#include "targets/cpu/kernel_form.h"
#include "targets/cpu/kernels/common/chunk_splitter.h"

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

// Copies rows whose elements are strided to contiguous ones of the call, or back.
void exchange(const Access& access, std::byte* strided, int64_t row_stride, int64_t along,
              const KernelCall& call, std::byte* rows, bool back) {
  TensorView outer{.type = access.type, .rank = 2};
  outer.data = strided;
  outer.dims = {call.rows, call.columns};
  TensorView inner = outer;
  outer.strides = {row_stride, along};
  inner.strides = {call.columns, 1};
  inner.data = rows;
  copy_elements(back ? inner : outer, back ? outer : inner);
}

}  // namespace

std::unique_ptr<const GeneratedRows> GeneratedRows::make(
    std::span<const Value* const> operands, std::span<const Instruction* const> instructions,
    Isa isa) {
  KernelForm form(operands);
  for (const Instruction* instruction : instructions) {
    if (is_any_of(instruction->op(), {&ops::softmax, &ops::log_softmax, &ops::layer_normalization,
                                      &ops::rms_normalization})) {
      form.add_rows(*instruction);
    } else if (!form.add(*instruction, instruction == instructions.back())) {
      return nullptr;
    }
  }
  const Value& result = *instructions.back()->result();
  form.store(result, result.type().element);
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
  std::array<int64_t, codegen::kMaxOperands> along{};
  uint32_t one_per_row = 0, strided = 0;
  const auto add = [&](const Access& access) {
    const size_t i = accesses.all().size();
    along[i] = access.strides[last];
    if (along[i] == 0) one_per_row |= 1u << i;
    if (along[i] != 0 && along[i] != 1) strided |= 1u << i;
    accesses.add(access);
  };
  for (const int operand : operands_) {
    if (operand >= 0) {
      add(interpret::access_to(*in[static_cast<size_t>(operand)], y, operand));
      continue;
    }
    void* data = operand == KernelForm::kColumns ? const_cast<float*>(&count) : nullptr;
    accesses.add({.data = static_cast<std::byte*>(data)});
    if (operand == KernelForm::kColumns) one_per_row |= 1u << (accesses.all().size() - 1);
  }
  const size_t result = operands_.size();
  add({.data = static_cast<std::byte*>(y.data), .type = y.type, .strides = y.strides});
  one_per_row &= ~(1u << result);
  if (along[result] != 1)
    strided = columns == 1 ? strided & ~(1u << result) : strided | 1u << result;
  const codegen::GeneratedKernel* kernel = variants_->find(one_per_row);
  if (kernel == nullptr) return false;

  const std::span<Access> all = accesses.all();
  Layout rows{.rank = y.rank - 1, .dims = y.dims};
  interpret::collapse(rows, all);
  const int64_t lines = rows.count();
  constexpr int64_t kWork = 1 << 18;  // operations of a task, at least
  const int64_t grain = std::max<int64_t>(kWork / (work_ + 8) / columns, 1);
  // Rows of a call: their temporary memory stays in the L1 cache, and each hides the latency of
  // another one's reductions. Strided ones fill lines of the cache.
  constexpr int64_t kMaxRows = 16, kTemporaries = 4096;
  const int64_t most =
      strided != 0 ? kMaxRows : std::clamp<int64_t>(kTemporaries / columns, 1, kMaxRows / 2);
  const auto is_strided = [&](size_t i) { return (strided >> i & 1) != 0; };
  const auto tile_bytes = [&](size_t i) { return (most * columns * bytes_of(all[i]) + 63) & -64; };
  int64_t tiles = 0;
  for (size_t i = 0; i < all.size(); ++i) tiles += is_strided(i) ? tile_bytes(i) : 0;
  parallel_for(pool, lines, even_grain(lines, grain), [&](int64_t begin, int64_t end) {
    const ScratchArray<float> temporary(most * columns);
    const ScratchBlock tile(tiles);
    std::array<float, kMaxRows * codegen::kMaxScalars> scalars;
    KernelCall call{.columns = columns};
    call.scalars = scalars.data();
    const auto is_temporary = [&](size_t i) {
      return i < operands_.size() && operands_[i] == KernelForm::kTemporary;
    };
    for (size_t i = 0; i < all.size(); ++i) {
      if (is_temporary(i)) {
        call.operands[i].row_stride = columns * static_cast<int64_t>(sizeof(float));
      } else if (is_strided(i)) {
        call.operands[i].row_stride = columns * bytes_of(all[i]);
      } else if (rows.rank > 0) {
        call.operands[i].row_stride =
            all[i].strides[static_cast<size_t>(rows.rank - 1)] * bytes_of(all[i]);
      }
    }
    while (begin < end) {
      const Row row(rows, begin);
      call.rows = std::min({end - begin, row.left, most});
      std::byte* free = tile.data();
      const auto outer = static_cast<size_t>(std::max(rows.rank - 1, 0));
      for (size_t i = 0; i < all.size(); ++i) {
        call.operands[i].data =
            is_temporary(i) ? reinterpret_cast<std::byte*>(temporary.data()) : row.of(rows, all[i]);
        if (!is_strided(i)) continue;
        if (i != result) {
          exchange(all[i], call.operands[i].data, all[i].strides[outer], along[i], call, free,
                   false);
        }
        call.operands[i].data = free;
        free += tile_bytes(i);
      }
      begin += call.rows;
      kernel->run(call);
      if (is_strided(result)) {
        exchange(all[result], row.of(rows, all[result]), all[result].strides[outer], along[result],
                 call, free - tile_bytes(result), true);
      }
    }
  });
  return true;
}

}  // namespace lathe::cpu
