// SPDX-License-Identifier: MIT
#include "passes/join_products.h"

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

// x · w (+ bias), w [k, n] and bias [n] constant.
struct Product {
  Instruction* matmul = nullptr;
  Instruction* sum = nullptr;  // null: no bias
  Value* bias = nullptr;
  int64_t columns = 0;
  const Instruction& last() const { return sum != nullptr ? *sum : *matmul; }
};

bool is_vector(const Value& value, int64_t count) {
  return value.type().is_ranked() && value.type().rank() == 1 &&
         (*value.type().dims)[0] == Dim(count);
}

bool is_literal(const Value& value) {
  const Instruction* definition = value.definition();
  return definition != nullptr && definition->literal() != nullptr &&
         !definition->literal()->bindable;
}

// Views of a slice need no copy; other readers may prefer memory of their own.
bool is_read_by_views(const Value& value) {
  return std::ranges::all_of(value.uses(), [](const Use& use) {
    return use.user != nullptr && use.user->op().view != nullptr && use.index == 0;
  });
}

std::optional<Product> product_of(Instruction& matmul) {
  Product product{.matmul = &matmul};
  const Value& w = *matmul.operands()[1];
  const Value& y = *matmul.result();
  if (!is_literal(w) || !w.type().is_ranked() || w.type().rank() != 2 ||
      y.type().element != ElementType::f32 || !y.type().is_ranked() || y.type().rank() < 2) {
    return std::nullopt;
  }
  const std::optional<int64_t> columns = (*w.type().dims)[1].constant();
  if (!columns || !(*w.type().dims)[0].is_constant()) return std::nullopt;
  product.columns = *columns;
  Instruction* user = y.uses().size() == 1 ? y.uses()[0].user : nullptr;
  if (user == nullptr || user->op() != ops::add || !(user->result()->type() == y.type())) {
    return product;
  }
  Value* other = user->operands()[user->operands()[0] == &y ? 1 : 0];
  if (is_literal(*other) && is_vector(*other, *columns) &&
      other->type().element == ElementType::f32) {
    product.sum = user;
    product.bias = other;
  }
  return product;
}

// Concatenates constants along the last axis, when the plan is made.
Value* joined(Builder& b, std::vector<Value*> parts) {
  Instruction* concat = b.add(ops::concat, std::move(parts), {{"axis", int64_t{-1}}});
  concat->set_deferred(true);
  return concat->result();
}

class Joiner {
 public:
  explicit Joiner(Module& module) : module_(module) {}

  bool run() {
    std::map<const Value*, std::vector<Product>> by_operand;
    std::vector<const Value*> order;
    int position = 0;
    for (const auto& instruction : module_.instructions()) {
      position_[instruction.get()] = position++;
      if (instruction->op() != ops::matmul || instruction->deferred()) continue;
      const std::optional<Product> product = product_of(*instruction);
      if (!product || !is_read_by_views(*product->last().result())) continue;
      const Value* x = instruction->operands()[0];
      if (!by_operand.contains(x)) order.push_back(x);
      by_operand[x].push_back(*product);
    }
    bool changed = false;
    for (const Value* x : order) {
      std::vector<Product>& products = by_operand[x];
      std::erase_if(products, [&](const Product& product) {
        return !(product.matmul->attributes() == products.front().matmul->attributes()) ||
               (product.bias == nullptr) != (products.front().bias == nullptr);
      });
      if (products.size() < 2) continue;
      join(products);
      changed = true;
    }
    return changed;
  }

 private:
  // Literals have no operands, so they may move ahead.
  void place_before(const Value& literal, Instruction* before) {
    if (position_.at(literal.definition()) > position_.at(before)) {
      module_.move(literal.definition(), before);
    }
  }

  void join(const std::vector<Product>& products) {
    Instruction* first = products.front().matmul;
    Builder b(module_, first);
    std::vector<Origin> origins;
    std::vector<Value*> weights, biases;
    for (const Product& product : products) {
      const auto& own = product.matmul->origins();
      origins.insert(origins.end(), own.begin(), own.end());
      weights.push_back(product.matmul->operands()[1]);
      if (product.bias != nullptr) biases.push_back(product.bias);
    }
    for (const Value* literal : weights) place_before(*literal, first);
    for (const Value* literal : biases) place_before(*literal, first);
    b.set_origins(std::move(origins));
    Value* y = b(ops::matmul, {first->operands()[0], joined(b, weights)}, first->attributes());
    if (!biases.empty()) y = b(ops::add, {y, joined(b, biases)});
    int64_t begin = 0;
    for (const Product& product : products) {
      b.set_origins(product.last().origins());
      Value* part = b(ops::slice, {y, b.integers({begin}), b.integers({begin + product.columns}),
                                   b.integers({-1})});
      begin += product.columns;
      module_.replace_uses(const_cast<Value*>(product.last().result()), part);
    }
  }

  Module& module_;
  std::map<const Instruction*, int> position_;
};

bool join_all(Program& program) {
  // Steps of decoders read dense values.
  if (!program.states().empty()) return false;
  bool changed = false;
  for (const auto& module : program.modules()) changed |= Joiner(*module).run();
  return changed;
}

}  // namespace

const Pass join_products{
    .name = "join_products",
    .doc = "Joins products of one value with several constant matrices.",
    .run = join_all,
};

}  // namespace lathe
