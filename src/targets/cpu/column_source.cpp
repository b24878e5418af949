// SPDX-License-Identifier: MIT
#include "targets/cpu/column_source.h"

#include <algorithm>
#include <span>

#include "base/file_map.h"
#include "base/thread_pool.h"
#include "ir/ops.h"
#include "plan/packing_observer.h"
#include "targets/cpu/gated_product.h"
#include "targets/cpu/kernels/weight_only/weight_only_tile.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/panel_source.h"
#include "tensor/mapped.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kA, kB, kScales, kZeros, kGroups, kBias };

// Codes, scales and zero points are results 0 to 2 of quantize_blocks.
bool is_made_by(const Value* operand, Operand index, const Instruction& made) {
  return operand == made.result(static_cast<int>(index - kB));
}

bool is_constant(const Value* operand) {
  if (operand == nullptr) return true;
  const Instruction* made = operand->definition();
  return made != nullptr &&
         (made->deferred() || (made->literal() != nullptr && !made->literal()->bindable));
}

// Each column is a row of the constants.
bool has_columns_as_rows(const Instruction& quantize_blocks, const Tensor& source) {
  return source.type() == ElementType::u8 || attribute<bool>(quantize_blocks, "transposed");
}

// A constant that can be packed where it lies.
const Tensor* packable(const Value& value) {
  const Instruction* source = value.definition();
  if (source == nullptr || source->literal() == nullptr || source->literal()->bindable) {
    return nullptr;
  }
  const Tensor& tensor = source->literal()->tensor;
  return tensor.is_dense() && stored_constants(tensor) == nullptr ? &tensor : nullptr;
}

}  // namespace

const Instruction* source_of_columns(const Instruction& user) {
  const Instruction* gated = gated_product(user);
  const Instruction& product = gated == nullptr ? user : *gated;
  if (PackingObserver::active() ||
      !is_any_of(product.op(), {&ops::matmul_n_bits, &ops::gather_n_bits})) {
    return nullptr;
  }
  const auto operand = [&](size_t i) -> const Value* {
    if (!has_operand(product, i)) return nullptr;
    const Value* own = product.operands()[i];
    return gated == nullptr ? own : user.operands()[static_cast<size_t>(own->index())];
  };
  const Instruction* made = operand(kB)->definition();
  if (made == nullptr || made->op() != ops::quantize_blocks || !made->deferred()) return nullptr;
  const bool has_zeros = operand(kZeros) != nullptr;
  const bool all = is_made_by(operand(kB), kB, *made) &&
                   is_made_by(operand(kScales), kScales, *made) &&
                   (!has_zeros || is_made_by(operand(kZeros), kZeros, *made)) &&
                   operand(kGroups) == nullptr && is_constant(operand(kBias));
  if (!all || source_tensors(*made).empty()) return nullptr;
  const ColumnForm form = SourceColumns(*made, fit_block).form();
  const bool same = form.has_zeros == has_zeros &&
                    form.bits == attribute<int64_t>(product, "bits") &&
                    form.block == attribute<int64_t>(product, "block_size");
  return same ? made : nullptr;
}

std::vector<const Tensor*> source_tensors(const Instruction& quantize_blocks) {
  const Value& read = *quantize_blocks.operands()[0];
  if (const Tensor* one = packable(read)) return {one};
  const Instruction* made = read.definition();
  if (made == nullptr || made->op() != ops::concat || !made->deferred() ||
      attribute<int64_t>(*made, "axis") != 0) {
    return {};
  }
  std::vector<const Tensor*> parts;
  for (const Value* part : made->operands()) {
    parts.push_back(packable(*part));
    // Panels have columns of one constant.
    const bool fits = parts.back() != nullptr && parts.back()->rank() == 2 &&
                      has_columns_as_rows(quantize_blocks, *parts.back()) &&
                      parts.back()->dims()[0] % kJoinedColumns == 0;
    if (!fits) return {};
  }
  return parts;
}

SourceColumns::SourceColumns(const Instruction& quantize_blocks, FitBlock fit) {
  for (const Tensor* source : source_tensors(quantize_blocks)) {
    sources_.push_back(*source);
    parts_.push_back(columns_of(InstructionReader(quantize_blocks), source->view(), fit));
  }
  columns_are_rows_ = has_columns_as_rows(quantize_blocks, sources_.front());
}

void SourceColumns::hold(WeightOnlyProblem& problem) const {
  cpu::hold(parts_.front(), problem);
  problem.n = 0;
  for (const WeightColumns& part : parts_) problem.n += part.form().columns;
}

// Makes `first` a column of the part.
size_t SourceColumns::part_of(int64_t& first) const {
  size_t part = 0;
  while (first >= parts_[part].form().columns) first -= parts_[part++].form().columns;
  return part;
}

void SourceColumns::make(int64_t first, int64_t count, const WeightOnlyColumns& to) const {
  const size_t part = part_of(first);
  parts_[part].make(first, count, to.codes, to.scales, to.zeros);
}

void SourceColumns::make_compact(int64_t first, int64_t count, const CompactColumns& to) const {
  const size_t part = part_of(first);
  parts_[part].make_compact(first, count, to);
}

void SourceColumns::release(int64_t first, int64_t count) const {
  // Each release interrupts all threads.
  constexpr int64_t kPart = int64_t{1} << 20;
  if (!columns_are_rows_) return;
  const Tensor& source = sources_[part_of(first)];
  const int64_t row = bytes_for(source.type(), source.dims()[1]);
  const int64_t begin = first * row / kPart * kPart, end = (first + count) * row / kPart * kPart;
  if (begin == end) return;
  release_mapped(std::span(source.as<std::byte>() + begin, static_cast<size_t>(end - begin)));
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

void pack_compact_parts(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                        const MakeCompactColumns& make, void* packed, ThreadPool* pool) {
  constexpr int64_t kPartsOfAThread = 8;
  const int64_t parts = kPartsOfAThread * (pool == nullptr ? 1 : pool->threads());
  const int64_t grain = std::max<int64_t>(1, layout.panels / parts);
  parallel_for(pool, layout.panels, grain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kPanel;
    WeightOnlyProblem part = problem;
    part.n = std::min(problem.n, end * kPanel) - first;
    WeightOnlyLayout own = layout;
    own.panels = end - begin;
    const auto make_part = [&](int64_t at, int64_t count, const CompactColumns& to) {
      make(first + at, count, to);
    };
    auto* const to = static_cast<std::byte*>(packed) + begin * layout.packed_panel_bytes;
    pack_compact(part, own, make_part, to, nullptr);
  });
}

std::string columns_id(const Instruction& quantize_blocks) {
  const auto& type = attribute<std::string>(quantize_blocks, "type");
  if (!type.empty()) return type;
  return fmt::format("{} quantised{}{}", to_string(source_tensors(quantize_blocks).front()->type()),
                     attribute<bool>(quantize_blocks, "transposed") ? " transposed" : "",
                     attribute<bool>(quantize_blocks, "symmetric") ? " symmetric" : "");
}

}  // namespace lathe::cpu
