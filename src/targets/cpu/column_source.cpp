// SPDX-License-Identifier: MIT
#include "targets/cpu/column_source.h"

#include <algorithm>
#include <span>

#include "base/file_map.h"
#include "ir/ops.h"
#include "plan/packing_observer.h"
#include "targets/cpu/operands.h"
#include "tensor/mapped.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kA, kB, kScales, kZeros, kGroups, kBias };

// Codes, scales and zero points are results 0 to 2 of quantize_blocks.
bool is_made_by(const Instruction& user, Operand operand, const Instruction& made) {
  return user.operands()[operand] == made.result(static_cast<int>(operand - kB));
}

bool is_constant_operand(const Instruction& user, size_t operand) {
  if (!has_operand(user, operand)) return true;
  const Instruction* made = user.operands()[operand]->definition();
  return made != nullptr && made->literal() != nullptr && !made->literal()->bindable;
}

// Each column is a row of the constant.
bool has_columns_as_rows(const Instruction& quantize_blocks) {
  return source_tensor(quantize_blocks).type() == ElementType::u8 ||
         attribute<bool>(quantize_blocks, "transposed");
}

}  // namespace

const Instruction* source_of_columns(const Instruction& user) {
  if (PackingObserver::active() ||
      !is_any_of(user.op(), {&ops::matmul_n_bits, &ops::gather_n_bits})) {
    return nullptr;
  }
  const Instruction* made = user.operands()[kB]->definition();
  if (made == nullptr || made->op() != ops::quantize_blocks || !made->deferred()) return nullptr;
  const bool has_zeros = has_operand(user, kZeros);
  const bool all = is_made_by(user, kB, *made) && is_made_by(user, kScales, *made) &&
                   (!has_zeros || is_made_by(user, kZeros, *made)) && !has_operand(user, kGroups) &&
                   is_constant_operand(user, kBias);
  const Instruction* source = made->operands()[0]->definition();
  if (!all || source == nullptr || source->literal() == nullptr || source->literal()->bindable) {
    return nullptr;
  }
  const Tensor& tensor = source->literal()->tensor;
  if (!tensor.is_dense() || stored_constants(tensor) != nullptr) return nullptr;
  const ColumnForm form = columns_of(*made, fit_block).form();
  const bool same = form.has_zeros == has_zeros && form.bits == attribute<int64_t>(user, "bits") &&
                    form.block == attribute<int64_t>(user, "block_size");
  return same ? made : nullptr;
}

const Tensor& source_tensor(const Instruction& quantize_blocks) {
  return quantize_blocks.operands()[0]->definition()->literal()->tensor;
}

WeightColumns columns_of(const Instruction& quantize_blocks, FitBlock fit) {
  return lathe::columns_of(InstructionReader(quantize_blocks),
                           source_tensor(quantize_blocks).view(), fit);
}

void hold(const WeightColumns& columns, WeightOnlyProblem& problem) {
  const ColumnForm& form = columns.form();
  problem.k = form.inputs;
  problem.n = form.columns;
  problem.bits = form.bits;
  problem.block = form.block;
  problem.scale_type = form.scale_type;
  if (form.has_zeros) problem.zero_type = ElementType::f32;
  const std::optional<CompactForm>& compact = columns.compact_form();
  if (!compact || std::ranges::find(kCompactForms, *compact) == kCompactForms.end()) return;
  problem.compact = compact;
  problem.levels = columns.levels();
}

std::string columns_id(const Instruction& quantize_blocks) {
  const auto& type = attribute<std::string>(quantize_blocks, "type");
  if (!type.empty()) return type;
  return fmt::format("{} quantised{}{}", to_string(source_tensor(quantize_blocks).type()),
                     attribute<bool>(quantize_blocks, "transposed") ? " transposed" : "",
                     attribute<bool>(quantize_blocks, "symmetric") ? " symmetric" : "");
}

void release_columns(const Instruction& quantize_blocks, int64_t first, int64_t count) {
  // Each release interrupts all threads.
  constexpr int64_t kPart = int64_t{1} << 20;
  if (!has_columns_as_rows(quantize_blocks)) return;
  const Tensor& source = source_tensor(quantize_blocks);
  const int64_t row = bytes_for(source.type(), source.dims()[1]);
  const int64_t begin = first * row / kPart * kPart, end = (first + count) * row / kPart * kPart;
  if (begin == end) return;
  release_mapped(std::span(source.as<std::byte>() + begin, static_cast<size_t>(end - begin)));
}

}  // namespace lathe::cpu
