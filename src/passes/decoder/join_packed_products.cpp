// SPDX-License-Identifier: MIT
#include "passes/decoder/join_packed_products.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ops/op_origin.h"
#include "ops/support/sequence_attention.h"
#include "passes/fuse_regions.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

using Packs = std::function<bool(const Instruction&)>;

// Parts whose columns are a multiple of this have whole panels in every packing.
constexpr int64_t kColumns = 64;

// Equal but for what states the columns.
bool equal_but_columns(const Attributes& a, const Attributes& b) {
  return a.size() == b.size() && std::ranges::all_of(a, [&](const auto& item) {
           const Attribute* other = find_attribute(b, item.first);
           return item.first == "n" || (other != nullptr && *other == item.second);
         });
}

// A product, a constant summand per column, and the constant that its weights are made of.
struct Part {
  Instruction* product = nullptr;
  Instruction* sum = nullptr;  // null: no summand
  Value* summand = nullptr;
  const Instruction* quantised = nullptr;  // the quantize_blocks; null: 16 bits
  const Tensor* constant = nullptr;
  int64_t columns = 0;

  const Instruction& last() const { return sum != nullptr ? *sum : *product; }
};

bool is_transposed(const Instruction& quantised) {
  const Attribute* found = find_attribute(quantised.attributes(), "transposed");
  return found != nullptr && std::get<bool>(*found);
}

const Tensor* constant_of(const Value& value) {
  const Instruction* made = value.definition();
  return made == nullptr || made->literal() == nullptr || made->literal()->bindable
             ? nullptr
             : &made->literal()->tensor;
}

// The constant under deferred casts and transposes.
const Tensor* constant_under(const Value& value) {
  const Instruction* made = value.definition();
  while (made != nullptr && made->deferred() &&
         is_any_of(made->op(), {&ops::cast, &ops::transpose})) {
    made = made->operands()[0]->definition();
  }
  return made == nullptr || made->result() == nullptr ? nullptr : constant_of(*made->result());
}

bool is_vector(const Value& value, int64_t count) {
  return value.type().element == ElementType::f32 && value.type().is_ranked() &&
         value.type().rank() == 1 && (*value.type().dims)[0] == Dim(count);
}

// Takes the product and the summand of a sum; false if it is no such sum.
bool take_sum(Instruction& sum, Part& part) {
  if (sum.op() != ops::add) return false;
  for (const size_t i : {0, 1}) {
    Value* product = sum.operands()[i];
    Value* summand = sum.operands()[1 - i];
    const bool own = product->definition() != nullptr && product->uses().size() == 1 &&
                     is_any_of(product->definition()->op(), {&ops::matmul, &ops::matmul_n_bits}) &&
                     product->type() == sum.result()->type();
    if (!own || !is_vector(*summand, part.columns) || constant_under(*summand) == nullptr) continue;
    part.product = product->definition();
    part.sum = &sum;
    part.summand = summand;
    return true;
  }
  return false;
}

// The product that alone makes a value which one instruction reads, if its weights can be joined.
std::optional<Part> part_of(const Value* value, const Packs& packs) {
  constexpr size_t kWeights = 1, kZeros = 3;
  if (value == nullptr || value->definition() == nullptr || value->uses().size() != 1 ||
      !value->type().is_ranked() || value->type().rank() == 0) {
    return std::nullopt;
  }
  Part part{.product = value->definition()};
  const std::optional<int64_t> columns = value->type().dims->back().constant();
  if (!columns || *columns % kColumns != 0 || *columns == 0) return std::nullopt;
  part.columns = *columns;
  take_sum(*value->definition(), part);
  const Instruction& product = *part.product;
  if (product.deferred()) return std::nullopt;
  if (product.op() == ops::matmul) {
    const Value& weights = *product.operands()[kWeights];
    if (weights.uses().size() != 1 || !packs(product)) return std::nullopt;
    part.constant = constant_under(weights);
    // Panels of other weights hold one constant.
    const bool halves = part.constant != nullptr && info(part.constant->type()).bits == 16 &&
                        required_attribute<std::string>(product, "compute_type").empty();
    if (!halves) return std::nullopt;
  } else if (product.op() == ops::matmul_n_bits) {
    const auto& operands = product.operands();
    const bool more = std::ranges::any_of(
        operands.begin() + std::min<ptrdiff_t>(std::ssize(operands), kZeros + 1), operands.end(),
        [](auto* each) { return each; });
    if (more || !packs(product)) return std::nullopt;
    part.quantised = operands[kWeights]->definition();
    part.constant = constant_of(*part.quantised->operands()[0]);
    const bool rows = part.constant != nullptr &&
                      (part.constant->type() == ElementType::u8 || is_transposed(*part.quantised));
    if (!rows) return std::nullopt;
  }
  return part.constant == nullptr ? std::nullopt : std::optional(part);
}

bool are_joinable(const Part& a, const Part& b) {
  const Instruction &x = *a.product, &y = *b.product;
  const bool same =
      a.product != b.product && (a.sum == nullptr) == (b.sum == nullptr) && x.op() == y.op() &&
      x.operands()[0] == y.operands()[0] && x.operands().size() == y.operands().size() &&
      a.constant->type() == b.constant->type() && equal_but_columns(x.attributes(), y.attributes());
  return same && (a.quantised == nullptr ||
                  (a.quantised != b.quantised &&
                   equal_but_columns(a.quantised->attributes(), b.quantised->attributes())));
}

// All parts, if they can be joined; else none.
std::vector<Part> joinable_parts(std::span<Value* const> values, const Packs& packs) {
  std::vector<Part> parts;
  for (const Value* value : values) {
    const std::optional<Part> part = part_of(value, packs);
    if (!part || (!parts.empty() && !are_joinable(parts.front(), *part))) return {};
    parts.push_back(*part);
  }
  return parts;
}

Value* later(Value* value) {
  value->definition()->set_deferred(true);
  return value;
}

// [columns, depth], whatever of these the program has.
Value* rows_of(Builder& b, const Part& part) {
  if (part.quantised != nullptr) return part.quantised->operands()[0];
  Value* weights = part.product->operands()[1];
  const Instruction* made = defined_by(*weights, ops::transpose);
  return made != nullptr ? made->operands()[0] : later(b.transpose(weights, {1, 0}));
}

// The product of all columns, and the sum with all summands, in the place of the last part.
Value* join(Builder& b, std::span<const Part> parts) {
  constexpr size_t kBias = 5;  // of matmul_n_bits
  const Instruction& first = *parts.front().product;
  std::vector<Origin> origins;
  std::vector<Value*> rows, summands;
  int64_t columns = 0;
  for (const Part& part : parts) {
    const auto& own = part.product->origins();
    origins.insert(origins.end(), own.begin(), own.end());
    columns += part.columns;
    if (part.sum == nullptr) continue;
    origins.insert(origins.end(), part.sum->origins().begin(), part.sum->origins().end());
    summands.push_back(part.summand);
  }
  b.set_origins(std::move(origins));
  Value* summand = summands.empty()
                       ? nullptr
                       : later(b(ops::concat, std::move(summands), {{"axis", int64_t{0}}}));
  for (const Part& part : parts) rows.push_back(rows_of(b, part));
  Value* all = later(b(ops::concat, std::move(rows), {{"axis", int64_t{0}}}));
  std::vector<Value*> operands = first.operands();
  Attributes attributes = first.attributes();
  if (parts.front().quantised == nullptr) {
    operands[1] = later(b.transpose(all, {1, 0}));
  } else {
    Instruction* quantised =
        b.add(ops::quantize_blocks, {all}, parts.front().quantised->attributes());
    quantised->set_deferred(true);
    for (size_t i = 1; i < operands.size(); ++i) {
      if (operands[i] != nullptr) operands[i] = quantised->result(static_cast<int>(i) - 1);
    }
    for (auto& [name, value] : attributes) {
      if (name == "n") value = columns;
    }
    if (summand != nullptr) {
      operands.resize(kBias + 1);
      operands[kBias] = std::exchange(summand, nullptr);
    }
  }
  Value* all_columns = b.add(first.op(), std::move(operands), std::move(attributes))->result();
  return summand == nullptr ? all_columns : b(ops::add, {all_columns, summand});
}

void erase(Module& module, std::span<const Part> parts) {
  for (const Part& part : parts) {
    if (part.sum != nullptr) module.erase(part.sum);
    module.erase(part.product);
  }
}

// Query, keys and values become the query; query and keys alone are columns of their product.
bool join_attention(Instruction& attention, const Packs& packs) {
  constexpr SequenceAttentionOperands kOperands = sequence_attention_operands(true);
  constexpr int kAll[] = {kOperands.query, kOperands.key, kOperands.value};
  std::vector<Value*> values;
  for (const int i : kAll) values.push_back(attention.operands()[static_cast<size_t>(i)]);
  std::vector<Part> parts = joinable_parts(values, packs);
  if (parts.empty()) parts = joinable_parts(std::span(values).first(2), packs);
  if (parts.empty()) return false;
  Builder b(*attention.module(), &attention);
  Value* columns = join(b, parts);
  if (parts.size() == values.size()) {
    attention.set_operand(kOperands.query, columns);
    attention.set_operand(kOperands.key, nullptr);
    attention.set_operand(kOperands.value, nullptr);
  } else {
    int64_t begin = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      b.set_origins(parts[i].last().origins());
      const int64_t end = begin + parts[i].columns;
      attention.set_operand(kAll[i], b(ops::slice, {columns, b.integers({begin}), b.integers({end}),
                                                    b.integers({-1})}));
      begin = end;
    }
  }
  erase(*attention.module(), parts);
  return true;
}

// A gate and what it is multiplied by.
bool join_gate(Instruction& reader, const Packs& packs) {
  const std::vector<Part> parts = joinable_parts(reader.operands(), packs);
  if (parts.empty()) return false;
  Builder b(*reader.module(), &reader);
  Value* all = join(b, parts);
  const Instruction* halves =
      b.add(ops::split, {all}, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}, {}, 2);
  for (int i = 0; i < 2; ++i) reader.set_operand(i, const_cast<Value*>(halves->result(i)));
  erase(*reader.module(), parts);
  return true;
}

bool join_packed(Program& program, const Packs& packs) {
  std::vector<Instruction*> readers;
  for (const auto& instruction : program.main().instructions()) {
    if (!instruction->deferred()) readers.push_back(instruction.get());
  }
  bool changed = false;
  for (Instruction* reader : readers) {
    if (reader->op() == ops::sequence_attention) {
      changed |= join_attention(*reader, packs);
    } else if (is_elementwise(reader->op()) && reader->operands().size() == 2) {
      changed |= join_gate(*reader, packs);
    }
  }
  return changed;
}

}  // namespace

Pass join_packed_products(Packs packs) {
  return {
      .name = "join_packed_products",
      .doc = "Joins products of one value whose kernels pack weights from where they lie.",
      .run = [packs = std::move(packs)](Program& program) { return join_packed(program, packs); },
  };
}

}  // namespace lathe
