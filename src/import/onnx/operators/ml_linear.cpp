// SPDX-License-Identifier: MIT
// Linear models and support vector machines of ai.onnx.ml.
#include "import/onnx/operators/ml.h"

namespace lathe::onnx {
namespace {

int64_t size_of(const Numbers& values) { return static_cast<int64_t>(values.size()); }

// x times the transposed coefficients [rows, features].
Value* project(NodeImport& c, Value* x, std::string_view name, const Numbers& coefficients,
               int64_t rows) {
  c.check(rows > 0 && !coefficients.empty() && size_of(coefficients) % rows == 0,
          "{} has {} elements for {} rows", name, coefficients.size(), rows);
  Value* matrix = ml_numbers(c, name, coefficients, {rows, size_of(coefficients) / rows});
  return c.b("matmul", {x, c.b.transpose(matrix, {1, 0})});
}

Value* add_constant(NodeImport& c, Value* x, double value) {
  return c.b("add", {x, c.b.scalar(ElementType::f32, value)});
}

struct Kernel {
  std::string_view type;
  double gamma, coef0, degree;
};

Kernel kernel_of(NodeImport& c) {
  const Kernel kernel{c.text("kernel_type", "LINEAR"), 0, 0, 0};
  const bool is_known = kernel.type == "LINEAR" || kernel.type == "POLY" || kernel.type == "RBF" ||
                        kernel.type == "SIGMOID";
  c.check(is_known, "kernel_type is '{}', expected LINEAR, POLY, RBF or SIGMOID",
          escape(kernel.type));
  const Numbers parameters = c.numbers("kernel_params", Numbers{});
  c.check(parameters.empty() || parameters.size() == 3, "kernel_params has {} elements, expected 3",
          parameters.size());
  if (parameters.empty()) return kernel;
  return {kernel.type, parameters[0], parameters[1], parameters[2]};
}

// Kernel values of each row of x with each support vector, [n, count].
Value* kernel_values(NodeImport& c, const Kernel& kernel, int64_t count) {
  const Numbers vectors = c.numbers("support_vectors", Numbers{});
  Value* x = ml_matrix(c);
  if (kernel.type == "RBF") {
    c.check(size_of(vectors) % count == 0, "support_vectors has {} elements for {} vectors",
            vectors.size(), count);
    Value* matrix = ml_numbers(c, "support_vectors", vectors, {count, size_of(vectors) / count});
    return c.b("rbf_kernel", {x, matrix}, {{"gamma", kernel.gamma}});
  }
  Value* y = project(c, x, "support_vectors", vectors, count);
  if (kernel.type == "LINEAR") return y;
  y = c.b("mul", {y, c.b.scalar(ElementType::f32, kernel.gamma)});
  y = add_constant(c, y, kernel.coef0);
  if (kernel.type == "SIGMOID") return c.b("tanh", {y});
  return c.b("pow", {y, c.b.scalar(ElementType::f32, kernel.degree)});
}

// Labels and scores [n, count] of decisions of one class against the rest, or of all pairs.
void classify_pairs(NodeImport& c, const Labels& labels, Value* decisions, Value* votes,
                    const Numbers& prob_a, const Numbers& prob_b, std::string_view transform) {
  const int64_t pairs = labels.count * (labels.count - 1) / 2;
  c.out(0, ml_top_label(c, labels, votes));
  if (!prob_a.empty()) {
    Value* scaled = c.b("mul", {decisions, ml_numbers(c, "prob_a", prob_a, {pairs})});
    Value* logit = c.b("add", {scaled, ml_numbers(c, "prob_b", prob_b, {pairs})});
    Value* wins = c.b("sigmoid", {c.b("neg", {logit})});
    Value* scores = c.b("svm_probabilities", {wins}, {{"classes", labels.count}});
    return c.out(1, ml_transformed(c, scores, transform, labels.count));
  }
  c.out(1, labels.count == 2 ? ml_two_classes(c, decisions, transform, transform != "NONE")
                             : ml_transformed(c, decisions, transform, pairs));
}

}  // namespace

void import_linear_regressor(NodeImport& c) {
  const int64_t targets = c.integer("targets", 1);
  const Numbers coefficients = c.numbers("coefficients", Numbers{});
  const Numbers intercepts = c.numbers("intercepts", Numbers{});
  const std::string_view transform = ml_transform(c);
  Value* y = project(c, ml_matrix(c), "coefficients", coefficients, targets);
  if (!intercepts.empty()) {
    y = c.b("add", {y, ml_numbers(c, "intercepts", intercepts, {targets})});
  }
  c.out(0, ml_transformed(c, y, transform, targets));
}

void import_linear_classifier(NodeImport& c) {
  const Labels labels = ml_labels(c, "classlabels_ints", "classlabels_strings");
  const Numbers coefficients = c.numbers("coefficients");
  const Numbers intercepts = c.numbers("intercepts", Numbers{});
  const std::string_view transform = ml_transform(c);
  c.ignore({"multi_class"});
  Value* x = ml_matrix(c);
  // Without intercepts the features distinguish a single row for two classes from one for each.
  const bool is_single =
      labels.count == 2 && intercepts.empty() && ml_features(c) == size_of(coefficients);
  const int64_t rows = is_single ? 1 : intercepts.empty() ? labels.count : size_of(intercepts);
  c.check(rows == labels.count || (rows == 1 && labels.count == 2),
          "{} intercepts for {} class labels", rows, labels.count);
  Value* scores = project(c, x, "coefficients", coefficients, rows);
  if (!intercepts.empty()) {
    scores = c.b("add", {scores, ml_numbers(c, "intercepts", intercepts, {rows})});
  }
  if (rows == 1 && labels.count == 2) {
    c.out(0, ml_label_above(c, labels, scores, 0));
    return c.out(1, ml_two_classes(c, scores, transform, true));
  }
  c.out(0, ml_top_label(c, labels, scores));
  c.out(1, ml_transformed(c, scores, transform, rows));
}

// As in ONNX Runtime, post_transform has no effect.
void import_svm_regressor(NodeImport& c) {
  const int64_t vectors = c.integer("n_supports", 0);
  const Kernel kernel = kernel_of(c);
  const Numbers coefficients = c.numbers("coefficients");
  const Numbers rho = c.numbers("rho");
  c.check(vectors >= 0, "n_supports is {}, expected at least 0", vectors);
  c.check(!coefficients.empty() && rho.size() == 1,
          "coefficients has {} elements, rho {}, expected at least 1 and 1", coefficients.size(),
          rho.size());
  ml_transform(c);
  c.check(vectors == 0 || vectors == size_of(coefficients), "{} support vectors, {} coefficients",
          vectors, coefficients.size());
  c.ignore({"support_vectors"});
  Value* x = vectors > 0 ? kernel_values(c, kernel, vectors) : ml_matrix(c);
  Value* y = add_constant(c, project(c, x, "coefficients", coefficients, 1), rho[0]);
  if (c.integer("one_class", 0) != 0) {
    const auto sign = [&](double value) { return c.b.scalar(ElementType::f32, value); };
    y = c.b("where", {c.b("greater", {y, sign(0)}), sign(1), sign(-1)});
  }
  c.out(0, y);
}

void import_svm_classifier(NodeImport& c) {
  const Labels labels = ml_labels(c, "classlabels_ints", "classlabels_strings");
  const Integers counts = c.integers("vectors_per_class", Integers{});
  const Kernel kernel = kernel_of(c);
  const Numbers coefficients = c.numbers("coefficients");
  const Numbers rho = c.numbers("rho");
  const Numbers prob_a = c.numbers("prob_a", Numbers{});
  const Numbers prob_b = c.numbers("prob_b", Numbers{});
  const std::string_view transform = ml_transform(c);
  c.check(prob_a.size() == prob_b.size(), "prob_a has {} elements, prob_b {}", prob_a.size(),
          prob_b.size());
  c.ignore({"support_vectors"});
  int64_t vectors = 0;
  for (const int64_t count : counts) {
    c.check(count >= 0 && count <= size_of(coefficients),
            "vectors_per_class has {}, there are {} coefficients", count, coefficients.size());
    vectors += count;
  }
  if (vectors > 0) {
    const int64_t classes = labels.count;
    c.check(std::ssize(counts) == classes && classes >= 2,
            "vectors_per_class has {} elements for {} class labels", counts.size(), classes);
    Value* values = kernel_values(c, kernel, vectors);
    Value* weights = ml_numbers(c, "coefficients", coefficients, {classes - 1, vectors});
    Value* intercepts = ml_numbers(c, "rho", rho, {size_of(rho)});
    Instruction* pairs =
        c.b.add("svm_one_vs_one", {values, weights, intercepts}, {{"vectors_per_class", counts}});
    return classify_pairs(c, labels, pairs->result(0), pairs->result(1), prob_a, prob_b, transform);
  }
  c.check(!rho.empty(), "rho has {} elements, expected at least 1", rho.size());
  Value* scores = project(c, ml_matrix(c), "coefficients", coefficients, labels.count);
  scores = add_constant(c, scores, rho[0]);
  // Two classes: the second also where its score is below the first's, but positive.
  Value* choice = scores;
  if (labels.count == 2 && prob_a.empty()) {
    bool is_positive = true;
    for (const double value : coefficients) is_positive = is_positive && value >= 0;
    Value* most = c.b("reduce_max", {scores, c.b.integers({1})});
    Value* bound = c.b.scalar(ElementType::f32, is_positive ? 0.5 : 0.0);
    Value* wins = c.b(is_positive ? "greater_or_equal" : "greater", {most, bound});
    Value* second = c.b.integers({0, 1});
    choice = c.b("where", {wins, c.b.cast(second, ElementType::f32), scores});
  }
  c.out(0, ml_top_label(c, labels, choice));
  c.out(1, ml_transformed(c, scores, transform, labels.count));
}

}  // namespace lathe::onnx
