// SPDX-License-Identifier: MIT
// Imports the operators of ai.onnx.preview and ai.onnx.preview.training.
#include <cmath>

#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// Keys or values with one head per head of the queries.
Value* repeat_heads(NodeImport& c, int i, ElementType type) {
  c.check(c.rank(0) == 4 && c.rank(i) == 4, "inputs 0 and {} have rank {} and {}, expected 4", i,
          c.rank(0), c.rank(i));
  const Dim& heads = (*c.in(0)->type().dims)[1];
  const Dim& given = (*c.in(i)->type().dims)[1];
  Value* x = c.b.cast(c.in(i), type);
  if (equal(heads, given) == Ternary::yes) return x;
  c.supported(heads.is_constant() && given.is_constant(), "{} heads of queries over {} of input {}",
              heads.to_string(), given.to_string(), i);
  const int64_t count = *heads.constant();
  c.check(*given.constant() > 0 && count % *given.constant() == 0 && count <= 1 << 20,
          "{} heads of queries are not a multiple of {}, those of input {}", count,
          *given.constant(), i);
  Integers source;
  for (int64_t head = 0; head < count; ++head) source.push_back(head * *given.constant() / count);
  return c.b("gather", {x, c.b.integers(source)}, {{"axis", int64_t{1}}});
}

// Applies a subgraph of one input and one output, if the attribute is given.
Value* modified(NodeImport& c, std::string_view attribute, Value* x) {
  if (!c.has_attribute(attribute)) return x;
  const std::vector<Value*> results = c.inline_graph(c.b.module(), c.graph(attribute), {x}, {});
  c.check(results.size() == 1, "'{}' has {} outputs, expected 1", attribute, results.size());
  return results[0];
}

}  // namespace

void import_flex_attention(NodeImport& c) {
  Builder& b = c.b;
  const ElementType type = c.has_attribute("softmax_precision")
                               ? c.element_type("softmax_precision")
                           : c.element(0) == ElementType::f64 ? ElementType::f64
                                                              : ElementType::f32;
  Value* keys = repeat_heads(c, 1, type);
  const std::optional<int64_t> size = c.in(0)->type().dims->back().constant();
  c.supported(size.has_value() || c.has_attribute("scale"), "heads of size {} without a scale",
              c.in(0)->type().dims->back().to_string());
  const double plain = 1 / std::sqrt(static_cast<double>(size.value_or(1)));
  Value* scores = b("matmul", {b.cast(c.in(0), type), b.transpose(keys, {0, 1, 3, 2})});
  scores = b("mul", {scores, b.scalar(type, c.number("scale", plain))});
  Value* weights = b("softmax", {modified(c, "score_mod", scores)}, {{"axis", int64_t{-1}}});
  Value* y = b("matmul", {modified(c, "prob_mod", weights), repeat_heads(c, 2, type)});
  c.out(0, b.cast(y, c.element(0)));
}

namespace {

// One step of an optimiser: inputs learning rate, count of steps, then `kinds` lists of tensors.
class Step {
 public:
  Step(NodeImport& import, int kinds) : c(import), count_((import.count() - 2) / kinds) {
    c.check(c.count() > 2 && (c.count() - 2) % kinds == 0,
            "the node has {} inputs, expected 2 and {} per tensor", c.count(), kinds);
    const ElementType rate = c.in(0)->type().element;
    c.check(rate == ElementType::f32 || rate == ElementType::f64,
            "the rate has element type {}, expected f32 or f64", to_string(rate));
    c.check(c.in(1)->type().element == ElementType::i64,
            "the step has element type {}, expected i64", to_string(c.in(1)->type().element));
  }
  int count() const { return count_; }
  Value* input(int kind, int i) const { return c.in(2 + kind * count_ + i); }
  void output(int kind, int i, Value* value) const { c.out(kind * count_ + i, value); }

  Value* attribute(std::string_view name, std::optional<double> fallback = {}) const {
    return number(c.number(name, fallback));
  }
  Value* number(double value) const { return c.b.scalar(input(0, 0)->type().element, value); }
  Value* rate() const { return c.b.cast(c.in(0), input(0, 0)->type().element); }
  Value* steps() const { return c.b.cast(c.in(1), input(0, 0)->type().element); }

  Value* add(Value* x, Value* y) const { return c.b("add", {x, y}); }
  Value* sub(Value* x, Value* y) const { return c.b("sub", {x, y}); }
  Value* mul(Value* x, Value* y) const { return c.b("mul", {x, y}); }
  Value* div(Value* x, Value* y) const { return c.b("div", {x, y}); }
  // share · x + (1 - share) · y
  Value* blend(Value* share, Value* x, Value* y) const {
    return add(mul(share, x), mul(sub(number(1), share), y));
  }
  // The gradient of tensor i with that of the norm.
  Value* gradient(int i, std::optional<double> fallback) const {
    return add(mul(attribute("norm_coefficient", fallback), input(0, i)), input(1, i));
  }
  // `later` from the second step on.
  Value* after_first(Value* later, Value* first) const {
    return c.b("where", {c.b("greater", {steps(), number(0)}), later, first});
  }

  NodeImport& c;

 private:
  int count_;
};

}  // namespace

void import_adagrad(NodeImport& c) {
  const Step s(c, 3);
  Value* decay = s.mul(s.steps(), s.attribute("decay_factor", 0));
  Value* rate = s.div(s.rate(), s.add(s.number(1), decay));
  for (int i = 0; i < s.count(); ++i) {
    Value* gradient = s.gradient(i, 0.0);
    Value* squares = s.add(s.input(2, i), s.mul(gradient, gradient));
    Value* root = s.add(c.b("sqrt", {squares}), s.attribute("epsilon", 1e-6));
    s.output(0, i, s.sub(s.input(0, i), s.div(s.mul(rate, gradient), root)));
    s.output(1, i, squares);
  }
}

void import_momentum(NodeImport& c) {
  const Step s(c, 3);
  const std::string_view mode = c.text("mode");
  c.check(mode == "standard" || mode == "nesterov", "mode is '{}', expected standard or nesterov",
          escape(mode));
  Value* alpha = s.attribute("alpha");
  Value* beta = s.after_first(s.attribute("beta"), s.number(1));
  for (int i = 0; i < s.count(); ++i) {
    Value* gradient = s.gradient(i, std::nullopt);
    Value* momentum = s.add(s.mul(alpha, s.input(2, i)), s.mul(beta, gradient));
    Value* step = mode == "standard" ? momentum : s.add(gradient, s.mul(alpha, momentum));
    s.output(0, i, s.sub(s.input(0, i), s.mul(s.rate(), step)));
    s.output(1, i, momentum);
  }
}

void import_adam(NodeImport& c) {
  const Step s(c, 4);
  Value* alpha = s.attribute("alpha", 0.9);
  Value* beta = s.attribute("beta", 0.999);
  const auto rest = [&](Value* x) { return s.sub(s.number(1), c.b("pow", {x, s.steps()})); };
  Value* later = s.div(s.mul(s.rate(), c.b("sqrt", {rest(beta)})), rest(alpha));
  Value* rate = s.after_first(later, s.rate());
  Value* kept = s.sub(s.number(1), s.attribute("norm_coefficient_post", 0));
  for (int i = 0; i < s.count(); ++i) {
    Value* gradient = s.gradient(i, 0.0);
    Value* average = s.blend(alpha, s.input(2, i), gradient);
    Value* squares = s.blend(beta, s.input(3, i), s.mul(gradient, gradient));
    Value* root = s.add(c.b("sqrt", {squares}), s.attribute("epsilon", 1e-6));
    Value* x = s.sub(s.input(0, i), s.div(s.mul(rate, average), root));
    s.output(0, i, s.mul(kept, x));
    s.output(1, i, average);
    s.output(2, i, squares);
  }
}

}  // namespace lathe::onnx
