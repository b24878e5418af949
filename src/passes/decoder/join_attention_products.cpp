// SPDX-License-Identifier: MIT
#include "passes/decoder/join_attention_products.h"

#include <algorithm>
#include <array>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ops/support/sequence_attention.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

constexpr SequenceAttentionOperands kOperands = sequence_attention_operands(true);
constexpr std::array<int, 3> kParts{kOperands.query, kOperands.key, kOperands.value};
using Products = std::array<Instruction*, 3>;

// All of them or none have a bias, a constant vector.
struct Parts {
  Products products{};
  Products sums{};
  std::array<Value*, 3> biases{};

  bool are_biased() const { return sums[0] != nullptr; }
};

bool is_product(const Op& op) { return op == ops::matmul || op == ops::matmul_n_bits; }

// A constant of known shape, whose axis 0 has the columns of the product; or none.
bool is_joinable(const Instruction& product, size_t operand) {
  const Value* own = product.operands()[operand];
  if (own == nullptr) return true;
  return is_constant(*own) && own->type().is_ranked() && own->type().rank() > 0 &&
         std::ranges::all_of(*own->type().dims, [](const Dim& dim) { return dim.is_constant(); });
}

// The attributes but those that state the columns.
bool are_alike(const Instruction& a, const Instruction& b) {
  const bool same = a.op() == b.op() && a.operands().size() == b.operands().size() &&
                    a.operands()[0] == b.operands()[0] &&
                    a.result()->type().element == b.result()->type().element;
  if (!same) return false;
  for (const auto& [name, value] : a.attributes()) {
    const Attribute* other = find_attribute(b.attributes(), name);
    if (name != "n" && (other == nullptr || !(*other == value))) return false;
  }
  for (size_t i = 1; i < a.operands().size(); ++i) {
    const Value* own = a.operands()[i];
    const Value* other = b.operands()[i];
    if ((own == nullptr) != (other == nullptr)) return false;
    if (own == nullptr) continue;
    if (own->type().element != other->type().element ||
        own->type().rank() != other->type().rank()) {
      return false;
    }
  }
  return true;
}

// The product under the sum of a part; or none.
Instruction* product_under(const Instruction& sum, Value*& bias) {
  for (size_t i = 0; i < 2; ++i) {
    const Value& product = *sum.operands()[i];
    Value* other = sum.operands()[1 - i];
    const bool fits = product.definition() != nullptr && is_product(product.definition()->op()) &&
                      product.uses().size() == 1 && product.type() == sum.result()->type() &&
                      is_constant(*other) && other->type().is_ranked() &&
                      other->type().rank() == 1 &&
                      other->type().element == product.type().element &&
                      other->type().dims->back() == product.type().dims->back();
    if (!fits) continue;
    bias = other;
    return product.definition();
  }
  return nullptr;
}

bool find_parts(const Instruction& attention, Parts& parts) {
  Products& products = parts.products;
  for (size_t i = 0; i < kParts.size(); ++i) {
    const Value* part = attention.operands()[static_cast<size_t>(kParts[i])];
    if (part == nullptr || part->definition() == nullptr || part->uses().size() != 1) return false;
    products[i] = part->definition();
    if (products[i]->op() == ops::add && !products[i]->deferred()) {
      parts.sums[i] = products[i];
      products[i] = product_under(*parts.sums[i], parts.biases[i]);
    }
    if (products[i] == nullptr || (parts.sums[i] != nullptr) != parts.are_biased()) return false;
    const Instruction& own = *products[i];
    if (!is_product(own.op()) || own.deferred() || !are_alike(*products[0], own)) return false;
    for (size_t operand = 1; operand < own.operands().size(); ++operand) {
      if (!is_joinable(own, operand)) return false;
    }
    constexpr size_t kGroups = 4;  // of matmul_n_bits: they permute the depth
    if (own.op() == ops::matmul_n_bits && own.operands().size() > kGroups &&
        own.operands()[kGroups] != nullptr) {
      return false;
    }
    if (own.op() == ops::matmul && own.operands()[1]->type().rank() != 2) return false;
  }
  return true;
}

Value* deferred(Value* value) {
  value->definition()->set_deferred(true);
  return value;
}

// [columns, depth], whatever of these the file has.
Value* turned(Builder& b, Value* weights) {
  const Instruction* made = defined_by(*weights, ops::transpose);
  return made != nullptr ? made->operands()[0] : deferred(b.transpose(weights, {1, 0}));
}

Attributes joined_attributes(const Products& products) {
  Attributes attributes = products[0]->attributes();
  for (auto& [name, value] : attributes) {
    if (name != "n") continue;
    int64_t columns = 0;
    for (const Instruction* product : products) {
      columns += std::get<int64_t>(*find_attribute(product->attributes(), "n"));
    }
    value = columns;
  }
  return attributes;
}

void join(Instruction& attention, const Parts& found) {
  const Products& products = found.products;
  Builder b(*attention.module(), &attention);
  std::vector<Origin> origins;
  for (size_t i = 0; i < products.size(); ++i) {
    for (const Instruction* own : {products[i], found.sums[i]}) {
      if (own == nullptr) continue;
      origins.insert(origins.end(), own->origins().begin(), own->origins().end());
    }
  }
  b.set_origins(std::move(origins));
  const bool plain = products[0]->op() == ops::matmul;
  std::vector<Value*> operands = products[0]->operands();
  for (size_t i = 1; i < operands.size(); ++i) {
    if (operands[i] == nullptr) continue;
    std::vector<Value*> parts;
    for (const Instruction* product : products) {
      Value* own = product->operands()[i];
      parts.push_back(plain ? turned(b, own) : own);
    }
    operands[i] = deferred(b(ops::concat, std::move(parts), {{"axis", int64_t{0}}}));
    if (plain) operands[i] = deferred(b.transpose(operands[i], {1, 0}));
  }
  Value* joined = b.add(products[0]->op(), operands, joined_attributes(products))->result();
  if (found.are_biased()) {
    const auto& biases = found.biases;
    Value* bias = b(ops::concat, {biases.begin(), biases.end()}, {{"axis", int64_t{0}}});
    joined = b(ops::add, {joined, deferred(bias)});
  }
  attention.set_operand(kOperands.query, joined);
  attention.set_operand(kOperands.key, nullptr);
  attention.set_operand(kOperands.value, nullptr);
  for (size_t i = 0; i < products.size(); ++i) {
    if (found.are_biased()) attention.module()->erase(found.sums[i]);
    attention.module()->erase(products[i]);
  }
}

bool join_all(Program& program) {
  bool changed = false;
  for (const auto& instruction : program.main().instructions()) {
    Parts parts;
    if (!(instruction->op() == ops::sequence_attention) || !find_parts(*instruction, parts)) {
      continue;
    }
    join(*instruction, parts);
    changed = true;
  }
  return changed;
}

}  // namespace

const Pass join_attention_products{
    .name = "join_attention_products",
    .doc = "Computes query, keys and values of a decoder's layer in one product.",
    .run = join_all,
};

}  // namespace lathe
