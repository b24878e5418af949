// SPDX-License-Identifier: MIT
// Bit-exact: each element of a product is computed from the same numbers.
#include "passes/simplify_transposes.h"

#include "ir/ops.h"
#include "ir/rule.h"
#include "ops/op_origin.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

bool is_used_once(const Value& value) { return value.uses().size() == 1; }

bool is_row(const Value& value, const Dim& columns) {
  return value.type().is_ranked() && value.type().rank() == 1 &&
         value.type().dims->front() == columns;
}

// The operand of a reshape, or the value itself.
Value* before_reshape(Value* value) {
  const Instruction* reshape = defined_by(*value, ops::reshape);
  return reshape != nullptr && reshape->operands()[0]->type().is_ranked() ? reshape->operands()[0]
                                                                          : value;
}

// reshape(gemm(x, w) + c) that splits the first axis: matmul(reshape(x), w) + c, whose users see
// the product itself.
Value* split_products(Match& match) {
  const Instruction* gemm = defined_by(*match["product"], ops::gemm);
  const Type& type = match.root().result()->type();
  if (gemm == nullptr || !is_used_once(*match["product"]) || !type.is_ranked() || type.rank() < 3 ||
      !gemm->operands()[0]->type().is_ranked()) {
    return nullptr;
  }
  const Dim& columns = match.type("product").dims->back();
  const auto& operands = gemm->operands();
  Value* bias = operands.size() > 2 ? operands[2] : nullptr;
  const bool plain = required_attribute<double>(*gemm, "alpha") == 1 &&
                     required_attribute<double>(*gemm, "beta") == 1 &&
                     !required_attribute<bool>(*gemm, "trans_a") && is_constant(*operands[1]) &&
                     type.dims->back() == columns && (bias == nullptr || is_row(*bias, columns));
  if (!plain) return nullptr;
  std::vector<Dim> dims(type.dims->begin(), type.dims->end() - 1);
  dims.push_back(operands[0]->type().dims->back());
  Builder& b = match.b;
  Value* weights = operands[1];
  if (required_attribute<bool>(*gemm, "trans_b")) {
    weights = b.transpose(weights, {1, 0});
    weights->definition()->set_deferred(true);
  }
  Value* y = b(ops::matmul, {b.reshape(before_reshape(operands[0]), dims), weights},
               {{"compute_type", required_attribute<std::string>(*gemm, "compute_type")}});
  return bias == nullptr ? y : b(ops::add, {y, bias});
}

// transpose(x) for a transposed x, or for axes of one that a reshape joins; null for another x.
Value* transposed_again(Builder& b, Value* x, const Integers& permutation) {
  Value* inner = before_reshape(x);
  if (defined_by(*inner, ops::transpose) == nullptr) return nullptr;
  if (inner == x) return b.transpose(x, permutation);
  const std::vector<Dim>& from = *inner->type().dims;
  const std::vector<Dim>& to = *x->type().dims;
  std::vector<Integers> groups;  // axes of `from`, by axis of `to`
  size_t next = 0;
  for (const Dim& dim : to) {
    Integers& group = groups.emplace_back();
    Dim product = 1;
    while (next < from.size() && (group.empty() || !(product == dim))) {
      group.push_back(static_cast<int64_t>(next));
      product = product * from[next++];
    }
    if (group.empty() || !(product == dim)) return nullptr;
  }
  if (next != from.size()) return nullptr;
  Integers axes;
  std::vector<Dim> dims;
  for (const int64_t axis : permutation) {
    const Integers& group = groups[static_cast<size_t>(axis)];
    axes.insert(axes.end(), group.begin(), group.end());
    dims.push_back(to[static_cast<size_t>(axis)]);
  }
  return b.reshape(b.transpose(inner, axes), dims);
}

// transpose(matmul(x, w) + c) of other axes than the last, where x is transposed itself:
// matmul(transpose(x), w) + c.
Value* transpose_products(Match& match) {
  const Integers& permutation = required_attribute<Integers>(match.root(), "permutation");
  const auto rank = std::ssize(permutation);
  Value* value = match["product"];
  if (rank < 3 || permutation.back() != rank - 1 || !value->type().is_ranked()) return nullptr;
  Value* bias = nullptr;
  for (const Instruction* sum = defined_by(*value, ops::add); sum != nullptr; sum = nullptr) {
    const Dim& columns = value->type().dims->back();
    const size_t at = is_row(*sum->operands()[0], columns) ? 0 : 1;
    if (!is_used_once(*value) || !is_row(*sum->operands()[at], columns)) return nullptr;
    bias = sum->operands()[at];
    value = sum->operands()[1 - at];
  }
  const Instruction* product = defined_by(*value, ops::matmul);
  if (product == nullptr || !is_used_once(*value)) return nullptr;
  Value* x = product->operands()[0];
  Value* weights = product->operands()[1];
  if (!x->type().is_ranked() || x->type().rank() != rank || !weights->type().is_ranked() ||
      weights->type().rank() != 2) {
    return nullptr;
  }
  Builder& b = match.b;
  Value* turned = transposed_again(b, x, permutation);
  if (turned == nullptr) return nullptr;
  Value* y = b(ops::matmul, {turned, weights}, product->attributes());
  return bias == nullptr ? y : b(ops::add, {y, bias});
}

const RuleTable& rules() {
  static const RuleTable table({
      {"split_products", op(ops::reshape, {value("product"), value("shape")}), split_products},
      {"transpose_products", op(ops::transpose, {value("product")}), transpose_products},
  });
  return table;
}

}  // namespace

const Pass simplify_transposes{
    .name = "simplify_transposes",
    .doc = "Moves transposes before products of transposed values.",
    .run = [](Program& program) { return rules().apply(program); },
};

}  // namespace lathe
