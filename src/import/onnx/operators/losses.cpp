// SPDX-License-Identifier: MIT
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// Reduces -w·x at the target's class. x: [n, classes, …], target: [n, …], weights: [classes].
Value* likelihood_loss(NodeImport& c, Value* x, Value* target, Value* weights) {
  Builder& b = c.b;
  const ElementType type = x->type().element;
  target = b.cast(target, ElementType::i64);
  Value* ignored = nullptr;
  if (c.has_attribute("ignore_index")) {
    Value* index = b.scalar(ElementType::i64, static_cast<double>(c.integer("ignore_index")));
    ignored = b("equal", {target, index});
    target = b("where", {ignored, b.scalar(ElementType::i64, 0), target});
  }
  Value* axis = b.integers({1});
  Value* picked = b("gather_elements", {x, b("unsqueeze", {target, axis})}, {{"axis", int64_t{1}}});
  Value* loss = b("neg", {b("squeeze", {picked, axis})});
  Value* factor = weights == nullptr ? nullptr : b("gather", {weights, target});
  if (ignored != nullptr) {
    Value* kept = factor != nullptr ? factor : b.scalar(type, 1);
    factor = b("where", {ignored, b.scalar(type, 0), kept});
  }
  if (factor != nullptr) loss = b("mul", {loss, factor});
  const std::string_view reduction = c.text("reduction", "mean");
  if (reduction == "none") return loss;
  const Attributes all{{"keep_dims", false}};
  if (reduction == "sum") return b("reduce_sum", {loss}, all);
  c.check(reduction == "mean", "reduction is '{}', expected mean, none or sum", escape(reduction));
  if (factor == nullptr) return b("reduce_mean", {loss}, all);
  return b("div", {b("reduce_sum", {loss}, all), b("reduce_sum", {factor}, all)});
}

}  // namespace

void import_negative_log_likelihood_loss(NodeImport& c) {
  c.out(0, likelihood_loss(c, c.in(0), c.in(1), c.in_or_null(2)));
}

void import_softmax_cross_entropy_loss(NodeImport& c) {
  Value* log_probabilities = c.b("log_softmax", {c.in(0)}, {{"axis", int64_t{1}}});
  c.out(0, likelihood_loss(c, log_probabilities, c.in(1), c.in_or_null(2)));
  c.out(1, log_probabilities);
}

}  // namespace lathe::onnx
