// SPDX-License-Identifier: MIT
#include "targets/cpu/tile_epilogue.h"

#include <algorithm>
#include <array>

#include "base/thread_scratch.h"
#include "ops/interpret/access.h"
#include "targets/cpu/kernel_form.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

using interpret::Access;

std::vector<const Value*> with(std::span<const Value* const> values, const Value* last) {
  std::vector<const Value*> all(values.begin(), values.end());
  all.push_back(last);
  return all;
}

int64_t size_of(ElementType type) { return info(type).bits / 8; }

std::byte* element_of(const Operand& operand, const EpilogueTile& tile) {
  const int64_t at = tile.row * operand.row_stride + tile.column * operand.column_stride;
  return static_cast<std::byte*>(const_cast<void*>(operand.data)) + at * size_of(operand.type);
}

}  // namespace

TileEpilogue::TileEpilogue(const Anchor& anchor, std::span<const Value* const> parameters,
                           std::span<const Instruction* const> instructions, ElementType out,
                           Isa isa)
    : isa_(isa),
      sums_(parameters.size()),
      program_(with(parameters, anchor.result), instructions, isa) {
  run = [](const TileCode& code, const Epilogue& epilogue, const EpilogueTile& tile) {
    static_cast<const TileEpilogue&>(code).finish(epilogue, tile);
  };
  own_steps_ = (anchor.factor == 1 ? 0u : 1u) + (anchor.summand ? 1u : 0u);
  KernelForm form(parameters);
  // The launch's operands: parameters, the accumulators, what the anchor adds to them.
  const auto sums = static_cast<int>(sums_);
  form.add_sums(*anchor.result, {.operand = sums,
                                 .factor = anchor.factor,
                                 .summand = anchor.summand ? sums + 1 : KernelForm::kNone,
                                 .summand_type = anchor.summand.value_or(ElementType::f32),
                                 .summand_factor = anchor.summand_factor});
  for (const Instruction* instruction : instructions) {
    if (!form.add(*instruction, instruction == instructions.back())) return;
  }
  form.store(*instructions.back()->result(), out);
  for (const int operand : form.operands) {
    sources_.push_back(operand == sums  ? kSums
                       : operand > sums ? static_cast<int>(own_steps_) - 1
                                        : static_cast<int>(own_steps_) + operand);
  }
  variants_ = KernelVariants::make(std::move(form.kernel), isa);
}

void TileEpilogue::finish(const Epilogue& epilogue, const EpilogueTile& tile) const {
  if (variants_ == nullptr || !run_generated(epilogue, tile)) interpret(epilogue, tile);
}

bool TileEpilogue::run_generated(const Epilogue& epilogue, const EpilogueTile& tile) const {
  codegen::KernelCall call{.rows = tile.rows, .columns = tile.columns};
  uint32_t one_per_row = 0, strided = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i] == kSums) {
      call.operands[i] = {static_cast<std::byte*>(const_cast<void*>(tile.sums)),
                          tile.sums_stride * int64_t{sizeof(float)}};
      continue;
    }
    const Operand& operand = epilogue.steps[static_cast<size_t>(sources_[i])].operand;
    const int64_t size = size_of(operand.type);
    call.operands[i] = {element_of(operand, tile), operand.row_stride * size};
    if (operand.column_stride == 0) one_per_row |= 1u << i;
    if (operand.column_stride == 0 || operand.column_stride == 1) continue;
    strided |= 1u << i;
    bytes += tile.rows * tile.columns * size;
  }
  call.operands[sources_.size()] = {static_cast<std::byte*>(tile.out), tile.out_stride};
  const codegen::GeneratedKernel* kernel = variants_->find(one_per_row);
  if (kernel == nullptr) return false;
  const ScratchBlock copies(bytes);
  std::byte* free = copies.data();
  for (size_t i = 0; i < sources_.size(); ++i) {
    if ((strided >> i & 1) == 0) continue;
    const Operand& operand = epilogue.steps[static_cast<size_t>(sources_[i])].operand;
    TensorView from{.type = operand.type, .rank = 2};
    from.data = call.operands[i].data;
    from.dims = {tile.rows, tile.columns};
    from.strides = {operand.row_stride, operand.column_stride};
    TensorView to = dense_strides_of(from);
    to.data = free;
    copy_elements(from, to);
    call.operands[i] = {free, tile.columns * size_of(operand.type)};
    free += tile.rows * tile.columns * size_of(operand.type);
  }
  kernel->run(call);
  return true;
}

void TileEpilogue::interpret(const Epilogue& epilogue, const EpilogueTile& tile) const {
  const ScratchArray<float> sums(tile.rows * tile.columns);
  Epilogue own;
  own.steps = epilogue.steps.first(own_steps_);
  EpilogueTile to = tile;
  to.out = sums.data();
  to.out_stride = tile.columns * int64_t{sizeof(float)};
  finish_tile(isa_)(own, to);

  interpret::Layout layout{.rank = 2, .dims = {tile.rows, tile.columns}};
  interpret::AccessList<ElementwiseProgram::kMaxLoads + 1> accesses;
  for (const ElementwiseProgram::Load& load : program_.loads()) {
    const auto operand = static_cast<size_t>(load.operand);
    if (operand == sums_) {
      accesses.add({.data = reinterpret_cast<std::byte*>(sums.data()),
                    .type = ElementType::f32,
                    .strides = {tile.columns, 1}});
      continue;
    }
    const Operand& given = epilogue.steps[own_steps_ + operand].operand;
    accesses.add({.data = element_of(given, tile),
                  .type = given.type,
                  .strides = {given.row_stride, given.column_stride}});
  }
  accesses.add({.data = static_cast<std::byte*>(tile.out),
                .type = epilogue.out,
                .strides = {tile.out_stride / size_of(epilogue.out), 1}});
  interpret::collapse(layout, accesses.all());
  const int64_t chunk = interpret::kMaxChunk;
  const ScratchBlock memory(chunk * program_.bytes() + ElementwiseProgram::kPadding);
  const int64_t count = tile.rows * tile.columns;
  for (int64_t first = 0; first < count; first += chunk) {
    program_.run(layout, accesses.all(), {}, first, std::min(chunk, count - first), chunk,
                 memory.data());
  }
}

}  // namespace lathe::cpu
