// SPDX-License-Identifier: MIT
#include "import/onnx/operators/ml.h"
#include "tensor/convert.h"

namespace lathe::onnx {

Value* ml_matrix(NodeImport& c, ElementType type) {
  c.check(c.rank(0) == 1 || c.rank(0) == 2, "input 0 has rank {}, expected 1 or 2", c.rank(0));
  Value* x = c.b.cast(c.in(0), type);
  return c.rank(0) == 2 ? x : c.b("unsqueeze", {x, c.b.integers({0})});
}

ElementType ml_float_type(const NodeImport& c) {
  return c.element(0) == ElementType::f64 ? ElementType::f64 : ElementType::f32;
}

Value* ml_numbers(NodeImport& c, std::string_view name, const Numbers& values, Dims dims,
                  ElementType type) {
  const auto count = static_cast<int64_t>(values.size());
  Tensor tensor(type, {count});
  c.check(element_count(dims) == count, "{} has {} elements, expected {}", name, count,
          element_count(dims));
  convert(type, tensor.data(), ElementType::f64, values.data(), count);
  return c.b.literal(
      Tensor(type, dims, Tensor::dense_strides(dims), tensor.data(), tensor.owner()));
}

Value* ml_texts(NodeImport& c, const Texts& values) {
  Tensor tensor(ElementType::string, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<std::string>());
  return c.b.literal(std::move(tensor));
}

std::optional<int64_t> ml_features(const NodeImport& c) {
  const Dim& last = c.in(0)->type().dims->back();
  if (!last.is_constant()) return std::nullopt;
  return *last.constant();
}

Labels ml_labels(NodeImport& c, std::string_view integers, std::string_view texts) {
  const Integers numbers = c.integers(integers, Integers{});
  const Texts strings = c.texts(texts, Texts{});
  c.check(numbers.empty() != strings.empty(),
          "{} has {} labels and {} has {}, expected one of them", integers, numbers.size(), texts,
          strings.size());
  if (!strings.empty()) return {ml_texts(c, strings), static_cast<int64_t>(strings.size())};
  return {c.b.integers(numbers), static_cast<int64_t>(numbers.size())};
}

Value* ml_labels_at(NodeImport& c, const Labels& labels, Value* indices) {
  return c.b("gather", {labels.values, indices}, {{"axis", int64_t{0}}});
}

Value* ml_top_label(NodeImport& c, const Labels& labels, Value* scores) {
  return ml_labels_at(c, labels,
                      c.b("arg_max", {scores}, {{"axis", int64_t{1}}, {"keep_dims", false}}));
}

Value* ml_label_above(NodeImport& c, const Labels& labels, Value* score, double bound) {
  Value* is_above = c.b("greater", {score, c.b.scalar(score->type().element, bound)});
  Value* column = c.b("squeeze", {is_above, c.b.integers({1})});
  return ml_labels_at(c, labels, c.b.cast(column, ElementType::i64));
}

std::string_view ml_transform(NodeImport& c) {
  const std::string_view name = c.text("post_transform", "NONE");
  const bool is_known = name == "NONE" || name == "LOGISTIC" || name == "SOFTMAX" ||
                        name == "SOFTMAX_ZERO" || name == "PROBIT";
  c.check(is_known,
          "post_transform is '{}', expected NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT",
          escape(name));
  return name;
}

namespace {

// A softmax of the scores that are not zero; those that are stay zero.
Value* softmax_zero(Builder& b, Value* x) {
  const ElementType type = x->type().element;
  Value* most = b("reduce_max", {x, b.integers({1})});
  Value* counts = b("greater", {b("abs", {x}), b.scalar(type, 1e-7)});
  Value* power = b("exp", {b("sub", {x, most})});
  Value* rest = b("mul", {x, b("exp", {b("neg", {most})})});
  Value* sum = b("reduce_sum", {b("where", {counts, power, b.scalar(type, 0)}), b.integers({1})});
  return b("div", {b("where", {counts, power, rest}), sum});
}

}  // namespace

Value* ml_transformed(NodeImport& c, Value* scores, std::string_view transform, int64_t columns) {
  if (transform == "PROBIT") return c.b("probit", {scores});
  if (columns == 1) return scores;
  if (transform == "LOGISTIC") return c.b("sigmoid", {scores});
  if (transform == "SOFTMAX") return c.b("softmax", {scores}, {{"axis", int64_t{1}}});
  return transform == "SOFTMAX_ZERO" ? softmax_zero(c.b, scores) : scores;
}

Value* ml_two_classes(NodeImport& c, Value* score, std::string_view transform, bool complement) {
  Builder& b = c.b;
  const bool is_logistic = transform == "LOGISTIC";
  const ElementType type = score->type().element;
  Value* first =
      complement && !is_logistic ? b("sub", {b.scalar(type, 1), score}) : b("neg", {score});
  Value* both = b("concat", {first, score}, {{"axis", int64_t{1}}});
  return is_logistic || transform == "PROBIT" ? ml_transformed(c, both, transform, 2) : both;
}

}  // namespace lathe::onnx
