// SPDX-License-Identifier: MIT
#include "targets/cpu/generated_elementwise.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "ops/interpret/access.h"
#include "targets/cpu/kernel_form.h"
#include "targets/cpu/strided_tiles.h"

namespace lathe::cpu {
namespace {

using codegen::KernelCall;
using interpret::Access;
using interpret::Layout;

// An iteration space as lines of elements along the last axis.
struct Lines {
  int64_t rows = 1;     // of the second last axis
  int64_t columns = 1;  // of the last axis
  int64_t count = 1;    // of lines, in all
  explicit Lines(const Layout& layout) {
    const auto rank = static_cast<size_t>(layout.rank);
    if (rank > 0) columns = layout.dims[rank - 1];
    if (rank > 1) rows = layout.dims[rank - 2];
    for (size_t axis = 0; axis + 1 < rank; ++axis) count *= layout.dims[axis];
  }
};

std::byte* line_of(const Layout& layout, const Access& access, int64_t line) {
  int64_t offset = 0;
  for (int axis = layout.rank - 2; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    offset += line % layout.dims[a] * access.strides[a];
    line /= layout.dims[a];
  }
  return access.data + offset * (info(access.type).bits / 8);
}

// Runs `rows` lines from `line` on, `columns` elements of each from `column` on.
void run_rows(const codegen::GeneratedKernel& kernel, const Layout& layout,
              std::span<const Access> all, int64_t line, int64_t rows, int64_t column,
              int64_t columns) {
  KernelCall call{.rows = rows, .columns = columns};
  const auto rank = static_cast<size_t>(layout.rank);
  for (size_t i = 0; i < all.size(); ++i) {
    const Access& access = all[i];
    const int64_t bytes = info(access.type).bits / 8;
    const int64_t along = rank > 0 ? access.strides[rank - 1] : 0;
    call.operands[i] = {line_of(layout, access, line) + column * along * bytes,
                        rank > 1 ? access.strides[rank - 2] * bytes : 0};
  }
  kernel.run(call);
}

constexpr int64_t kWork = 1 << 19;  // operations of a task, at least

// Blocks of long lines.
void run_lines(const codegen::GeneratedKernel& kernel, const Layout& layout,
               std::span<const Access> all, int64_t elements, ThreadPool* pool) {
  constexpr int64_t kBlock = 8192;
  const Lines lines(layout);
  const int64_t blocks = (lines.columns + kBlock - 1) / kBlock;
  const int64_t grain = std::max<int64_t>(elements / std::min(lines.columns, kBlock), 1);
  parallel_for(pool, lines.count * blocks, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t line = begin / blocks, block = begin % blocks;
      if (blocks == 1) {
        const int64_t rows = std::min(end - begin, lines.rows - line % lines.rows);
        run_rows(kernel, layout, all, line, rows, 0, lines.columns);
        begin += rows;
      } else {
        const int64_t taken = std::min(end - begin, blocks - block);
        const int64_t first = block * kBlock;
        const int64_t last = std::min(lines.columns, first + taken * kBlock);
        run_rows(kernel, layout, all, line, 1, first, last - first);
        begin += taken;
      }
    }
  });
}

}  // namespace

std::unique_ptr<const GeneratedElementwise> GeneratedElementwise::make(
    std::span<const Value* const> operands, std::span<const Instruction* const> instructions,
    Isa isa) {
  KernelForm form(operands);
  for (const Instruction* instruction : instructions) {
    if (!form.add(*instruction, instruction == instructions.back())) return nullptr;
  }
  const Value& result = *instructions.back()->result();
  form.store(result, result.type().element);
  std::unique_ptr<GeneratedElementwise> out(new GeneratedElementwise);
  out->work_ = static_cast<int64_t>(form.kernel.form.nodes().size());
  out->operands_ = form.operands;
  out->variants_ = KernelVariants::make(std::move(form.kernel), isa);
  return out->variants_ == nullptr ? nullptr : std::move(out);
}

bool GeneratedElementwise::run(std::span<const TensorView* const> in, const TensorView& y,
                               ThreadPool* pool) const {
  interpret::AccessList<codegen::kMaxOperands> accesses;
  const size_t count = operands_.size();
  for (const int operand : operands_) {
    accesses.add(interpret::access_to(*in[static_cast<size_t>(operand)], y, operand));
  }
  accesses.add({.data = static_cast<std::byte*>(y.data), .type = y.type, .strides = y.strides});
  const std::span<Access> all = accesses.all();
  Layout layout{.rank = y.rank, .dims = y.dims};
  if (layout.count() == 0) return true;
  interpret::collapse(layout, all);
  uint32_t one_per_row = 0, strided = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t along =
        layout.rank > 0 ? all[i].strides[static_cast<size_t>(layout.rank - 1)] : 1;
    if (along == 1) continue;
    if (i == count) return false;
    (along == 0 ? one_per_row : strided) |= 1u << i;
  }
  const codegen::GeneratedKernel* kernel = variants_->find(one_per_row);
  if (kernel == nullptr) return false;
  const int64_t elements = std::max<int64_t>(kWork / (work_ + 8), 2048);  // of a task
  if (strided != 0) {
    StridedTiles(layout, all, strided)
        .run([&](KernelCall& call) { kernel->run(call); }, elements, pool);
  } else {
    run_lines(*kernel, layout, all, elements, pool);
  }
  return true;
}

}  // namespace lathe::cpu
