// SPDX-License-Identifier: MIT
#include "cli/explain_work.h"

#include <algorithm>

#include "base/error.h"
#include "ir/op.h"
#include "ir/ops.h"
#include "ir/program.h"
#include "passes/fuse_regions.h"

namespace lathe::cli {
namespace {

using Extents = std::vector<int64_t>;

// Nullopt if an operand is, or if the result does not fit.
std::optional<int64_t> checked_product(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t result = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &result)) return std::nullopt;
  return result;
}

std::optional<int64_t> checked_sum(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t result = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &result)) return std::nullopt;
  return result;
}

// The instructions that a launch computes.
std::vector<const Instruction*> steps_of(const Instruction& instruction) {
  if (instruction.op() != ops::region) return {&instruction};
  std::vector<const Instruction*> steps;
  for (const auto& step : instruction.bodies()[0]->instructions()) steps.push_back(step.get());
  return steps;
}

// The operand with the weights of a convolution, or of the right side of a product; -1: neither.
int weight_of(const Op& op) {
  if (is_any_of(op, {&ops::conv, &ops::conv_integer, &ops::conv_transpose, &ops::matmul,
                     &ops::matmul_integer, &ops::matmul_n_bits})) {
    return 1;
  }
  return is_any_of(op, {&ops::qlinear_conv, &ops::qlinear_matmul}) ? 3 : -1;
}

bool is_convolution(const Op& op) {
  return is_any_of(op, {&ops::conv, &ops::conv_integer, &ops::qlinear_conv, &ops::conv_transpose});
}

bool is_attention(const Op& op) {
  return is_any_of(op, {&ops::attention, &ops::cached_attention, &ops::multi_head_attention,
                        &ops::group_query_attention, &ops::packed_attention,
                        &ops::sequence_attention, &ops::paged_attention, &ops::sparse_attention});
}

bool takes_parts(const Op& op) {
  return is_any_of(op, {&ops::gather, &ops::gather_elements, &ops::gather_nd,
                        &ops::gather_block_quantized, &ops::gather_n_bits});
}

std::optional<int64_t> elements(const Extents& dims) {
  if (std::ranges::count(dims, 0) > 0) return 0;
  std::optional<int64_t> count = 1;
  for (const int64_t extent : dims) count = checked_product(count, extent);
  return count;
}

std::optional<int64_t> elements(const ValueSizes& sizes, const Value* value) {
  if (value == nullptr) return std::nullopt;
  const std::optional<Extents> dims = sizes.dims(*value);
  return dims ? elements(*dims) : std::nullopt;
}

std::optional<int64_t> product_operations(const Instruction& step, const ValueSizes& sizes) {
  const auto operand = [&](int i) -> std::optional<Extents> {
    const auto at = static_cast<size_t>(i);
    if (at >= step.operands().size() || step.operands()[at] == nullptr) return std::nullopt;
    return sizes.dims(*step.operands()[at]);
  };
  const std::optional<int64_t> count = elements(sizes, step.result());
  const std::optional<Extents> x = operand(0);
  const std::optional<Extents> weight = operand(weight_of(step.op()));
  if (!count || !x || !weight || x->empty() || weight->empty()) return std::nullopt;
  if (is_convolution(step.op())) {
    std::optional<int64_t> taps = elements(*weight);
    if (taps) *taps /= std::max<int64_t>(weight->front(), 1);
    const bool by_input = step.op() == ops::conv_transpose;
    return checked_product(checked_product(2, taps), by_input ? elements(*x) : count);
  }
  return checked_product(checked_product(2, count), x->back());
}

// Queries times keys, and weights times values.
std::optional<int64_t> attention_operations(const Instruction& step, const ValueSizes& sizes) {
  if (step.operands().size() < 2 || step.operands()[1] == nullptr) return std::nullopt;
  const std::optional<int64_t> queries = elements(sizes, step.operands()[0]);
  const std::optional<Extents> keys = sizes.dims(*step.operands()[1]);
  if (!queries || !keys || keys->size() < 2) return std::nullopt;
  return checked_product(checked_product(4, queries), (*keys)[keys->size() - 2]);
}

std::optional<int64_t> operations_of(const Instruction& step, const ValueSizes& sizes) {
  const Op& op = step.op();
  if (weight_of(op) >= 0) return product_operations(step, sizes);
  if (is_attention(op)) return attention_operations(step, sizes);
  if (op.map || op.view != nullptr || op.structural != Structural::none || takes_parts(op) ||
      step.results().empty()) {
    return 0;
  }
  if (is_elementwise(op)) return elements(sizes, step.result());
  int64_t most = 0;
  for (const Value* operand : step.operands()) {
    if (operand == nullptr) continue;
    const std::optional<int64_t> count = elements(sizes, operand);
    if (!count) return std::nullopt;
    most = std::max(most, *count);
  }
  return most;
}

}  // namespace

ValueSizes::ValueSizes(const Profiler& run) {
  for (const Profiler::Event& event : run.events()) {
    if (event.launch->instruction == nullptr) continue;
    const Instruction& instruction = *event.launch->instruction;
    const auto present = [](const std::vector<SlotId>& slots) {
      return std::count_if(slots.begin(), slots.end(), [](SlotId id) { return id >= 0; });
    };
    // The event has no entry for absent operands, nor for those that are no tensors.
    if (event.launch->operands.size() == instruction.operands().size() &&
        present(event.launch->operands) == event.operands) {
      size_t next = 0;
      for (size_t i = 0; i < instruction.operands().size(); ++i) {
        if (event.launch->operands[i] < 0) continue;
        const Profiler::Shape& shape = run.operands(event)[next++];
        if (instruction.operands()[i] != nullptr) bind(*instruction.operands()[i], shape.dims());
      }
    }
    const auto results = run.results(event);
    if (results.size() == instruction.results().size()) {
      for (size_t i = 0; i < results.size(); ++i) {
        bind(instruction.results()[i], results[i].dims());
      }
    }
  }
}

void ValueSizes::bind(const Value& value, std::span<const int64_t> dims) {
  if (!value.type().is_ranked() || value.type().dims->size() != dims.size()) return;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (const SymbolRef symbol = (*value.type().dims)[i].as_symbol(); symbol != nullptr) {
      symbols_.try_emplace(symbol->name, dims[i]);
    }
  }
}

std::optional<int64_t> ValueSizes::value(const Dim& dim) const {
  return dim.evaluate([&](const Symbol& symbol) -> std::optional<int64_t> {
    const auto found = symbols_.find(symbol.name);
    return found == symbols_.end() ? std::nullopt : std::optional(found->second);
  });
}

std::optional<std::vector<int64_t>> ValueSizes::dims(const Value& value) const {
  if (!value.type().is_ranked()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Dim& dim : *value.type().dims) {
    const std::optional<int64_t> size = this->value(dim);
    if (!size || *size < 0) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::string_view to_string(WorkKind kind) {
  switch (kind) {
    case WorkKind::product:
      return "product";
    case WorkKind::attention:
      return "attention";
    case WorkKind::elementwise:
      return "elementwise";
    case WorkKind::movement:
      return "movement";
    case WorkKind::other:
      return "other";
    default:
      return "view";
  }
}

WorkKind work_kind(const Launch& launch) {
  if (launch.kind == LaunchKind::view) return WorkKind::view;
  if (launch.instruction == nullptr || launch.kind == LaunchKind::copy) return WorkKind::movement;
  bool computes_elements = true;
  for (const Instruction* step : steps_of(*launch.instruction)) {
    const Op& op = step->op();
    if (weight_of(op) >= 0) return WorkKind::product;
    if (is_attention(op)) return WorkKind::attention;
    if (op.map || op.view != nullptr || takes_parts(op)) return WorkKind::movement;
    computes_elements = computes_elements && is_elementwise(op);
  }
  return computes_elements ? WorkKind::elementwise : WorkKind::other;
}

namespace {

// Throws Error(unsupported) if the expression is too large.
std::optional<Dim> bytes_of(const Value& value) {
  const Type& type = value.type();
  const int bits = type.is_ranked() ? info(type.element).bits : 0;
  if (bits == 0) return std::nullopt;
  Dim count = 1;
  for (const Dim& dim : *type.dims) count = count * dim;
  return bits < 8 ? Dim::ceil_div(count, 8 / bits) : count * (bits / 8);
}

std::optional<Dim> bytes_of(const Launch& launch) {
  if (launch.kind == LaunchKind::view) return 0;
  if (launch.instruction == nullptr) return std::nullopt;
  const Instruction& instruction = *launch.instruction;
  Dim written = 0;
  for (const Value& result : instruction.results()) {
    const std::optional<Dim> bytes = bytes_of(result);
    if (!bytes) return std::nullopt;
    written = written + *bytes;
  }
  Dim sum = written;
  for (size_t i = 0; i < instruction.operands().size(); ++i) {
    if (instruction.operands()[i] == nullptr) continue;
    const std::optional<Dim> bytes = bytes_of(*instruction.operands()[i]);
    if (!bytes) return std::nullopt;
    const bool in_part =
        takes_parts(instruction.op()) && (i == 0 || instruction.op() == ops::gather_n_bits);
    sum = sum + (in_part ? Dim::min(*bytes, written) : *bytes);
  }
  return sum;
}

}  // namespace

std::optional<Dim> symbolic_bytes(const Value& value, int64_t factor) {
  try {
    const std::optional<Dim> bytes = bytes_of(value);
    return bytes ? std::optional(*bytes * factor) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Dim> symbolic_launch_bytes(const Launch& launch) {
  try {
    return bytes_of(launch);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<int64_t> launch_bytes(const Launch& launch, const ValueSizes& sizes) {
  const std::optional<Dim> bytes = symbolic_launch_bytes(launch);
  return bytes ? sizes.value(*bytes) : std::nullopt;
}

std::optional<int64_t> launch_operations(const Launch& launch, const ValueSizes& sizes) {
  if (launch.kind == LaunchKind::view || launch.instruction == nullptr) return 0;
  std::optional<int64_t> sum = 0;
  for (const Instruction* step : steps_of(*launch.instruction)) {
    sum = checked_sum(sum, operations_of(*step, sizes));
  }
  return sum;
}

}  // namespace lathe::cli
