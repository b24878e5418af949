// SPDX-License-Identifier: MIT
// Contracts operands from left to right, each step as one batched GEMM.
#include <map>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/blocked_gemm.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// Letters are labels; axes of an ellipsis are numbered from the right, for broadcasting.
using Labels = std::vector<int>;
constexpr int kEllipsis = 1000;

struct Equation {
  std::vector<Labels> terms;
  Labels result;
};

template <class Context>
Labels read_term(const Context& c, std::string_view text, int rank) {
  Labels labels;
  const auto letters = static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char ch) { return std::isalpha(ch) != 0; }));
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("...")) {
      for (int axis = rank - letters; axis > 0; --axis) labels.push_back(kEllipsis + axis);
      i += 2;
    } else if (text[i] != ' ') {
      c.check(std::isalpha(static_cast<unsigned char>(text[i])) != 0,
              "'{}' in the equation is not a letter", escape(text.substr(i, 1)));
      labels.push_back(text[i]);
    }
  }
  return labels;
}

// Result of an equation without "->": the ellipsis, then letters that occur once, in order.
Labels implicit_result(const std::vector<Labels>& terms) {
  std::map<int, int> counts;
  for (const Labels& term : terms) {
    for (const int label : term) ++counts[label];
  }
  Labels result;
  for (const auto& [label, count] : counts) {
    if (label < kEllipsis && count == 1) result.push_back(label);
  }
  Labels ellipsis;
  for (const auto& [label, count] : counts) {
    if (label >= kEllipsis) ellipsis.insert(ellipsis.begin(), label);
  }
  result.insert(result.begin(), ellipsis.begin(), ellipsis.end());
  return result;
}

template <class Context>
Equation read_equation(const Context& c, const std::vector<int>& ranks) {
  const std::string& text = c.text("equation");
  const size_t arrow = text.find("->");
  Equation equation;
  int ellipsis = 0;  // axes of the longest ellipsis
  std::string_view rest = std::string_view(text).substr(0, arrow);
  for (const int rank : ranks) {
    const size_t comma = rest.find(',');
    const std::string_view term = rest.substr(0, comma);
    equation.terms.push_back(read_term(c, term, rank));
    c.check(static_cast<int>(equation.terms.back().size()) == rank,
            "term '{}' of equation '{}' does not match rank {}", escape(term), escape(text), rank);
    for (const int label : equation.terms.back()) ellipsis = std::max(ellipsis, label - kEllipsis);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    c.check((comma == std::string_view::npos) == (equation.terms.size() == ranks.size()),
            "equation '{}' must have {} terms", escape(text), ranks.size());
  }
  if (arrow == std::string::npos) {
    equation.result = implicit_result(equation.terms);
    return equation;
  }
  const std::string_view result = std::string_view(text).substr(arrow + 2);
  const auto letters = static_cast<int>(
      std::count_if(result.begin(), result.end(), [](char ch) { return std::isalpha(ch) != 0; }));
  equation.result = read_term(c, result, letters + ellipsis);
  return equation;
}

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A tensor whose axes have distinct labels.
struct Labelled {
  TensorView view;
  Labels labels;
  Tensor owner;
};

// A view in which each repeated label is one axis: its diagonal.
Labelled diagonal(const TensorView& view, const Labels& labels) {
  Labelled out;
  out.view = view;
  out.view.rank = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto found = std::find(out.labels.begin(), out.labels.end(), labels[i]);
    const auto at = static_cast<size_t>(found - out.labels.begin());
    if (found == out.labels.end()) {
      out.labels.push_back(labels[i]);
      ++out.view.rank;
      out.view.dims[at] = view.dims[i];
      out.view.strides[at] = 0;
    }
    out.view.dims[at] = std::max(out.view.dims[at], view.dims[i]);
    if (view.dims[i] != 1) out.view.strides[at] += view.strides[i];
  }
  return out;
}

class Contraction {
 public:
  Contraction(const Evaluation& c, const std::map<int, int64_t>& extents)
      : c_(c), extents_(extents) {}

  // a times b, summed over the labels not in `keep`; dense, of element type `type`.
  Labelled run(const Labelled& a, const Labelled& b, const Labels& keep, ElementType type) const {
    Labels batch;
    Labels left;
    Labels right;
    Labels summed;
    for (const int label : a.labels) {
      Labels& group = !contains(keep, label) ? summed : contains(b.labels, label) ? batch : left;
      group.push_back(label);
    }
    for (const int label : b.labels) {
      if (contains(a.labels, label)) continue;
      (contains(keep, label) ? right : summed).push_back(label);
    }
    const Tensor x = gather(a, {batch, left, summed});
    const Tensor y = gather(b, {batch, summed, right});
    Labelled out;
    out.labels = batch;
    out.labels.insert(out.labels.end(), left.begin(), left.end());
    out.labels.insert(out.labels.end(), right.begin(), right.end());
    out.owner = Tensor(type, extents_of(out.labels));
    out.view = out.owner.view();
    const int64_t count = element_count(extents_of(batch));
    const int64_t m = element_count(extents_of(left));
    const int64_t n = element_count(extents_of(right));
    const int64_t k = element_count(extents_of(summed));
    with_sum_type(type, [&]<class T>(T*) {
      for (int64_t i = 0; i < count; ++i) {
        MatrixGemm<T>({x.type(), x.data(), i * m * k, k, 1}, {y.type(), y.data(), i * k * n, n, 1},
                      {type, out.view.data, i * m * n, n, 1}, m, n, k)
            .run(c_.pool);
      }
    });
    return out;
  }

 private:
  Dims extents_of(const Labels& labels) const {
    Dims dims;
    for (const int label : labels) dims.push_back(extents_.at(label));
    return dims;
  }

  // A dense copy with the axes in this order; missing axes and axes of size 1 are repeated.
  Tensor gather(const Labelled& from, std::initializer_list<Labels> groups) const {
    TensorView view = from.view;
    view.rank = 0;
    for (const Labels& group : groups) {
      for (const int label : group) {
        c_.check(view.rank < kMaxRank, "more than {} labels", kMaxRank);
        const auto axis = static_cast<size_t>(view.rank++);
        const auto own = static_cast<size_t>(
            std::find(from.labels.begin(), from.labels.end(), label) - from.labels.begin());
        const bool repeated = own == from.labels.size() || from.view.dims[own] == 1;
        view.dims[axis] = extents_.at(label);
        view.strides[axis] = repeated ? 0 : from.view.strides[own];
      }
    }
    Tensor dense(view.type, dims_of(view));
    copy_elements(view, dense.view());
    return dense;
  }

  const Evaluation& c_;
  const std::map<int, int64_t>& extents_;
};

void evaluate_einsum(Evaluation& c) {
  std::vector<int> ranks;
  for (int i = 0; i < c.count(); ++i) ranks.push_back(c.in(i).rank);
  const Equation equation = read_equation(c, ranks);
  std::map<int, int64_t> extents;
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    for (size_t axis = 0; axis < equation.terms[i].size(); ++axis) {
      const int64_t extent = c.in(static_cast<int>(i)).dims[axis];
      int64_t& known = extents.try_emplace(equation.terms[i][axis], extent).first->second;
      if (known == 1) known = extent;
    }
  }
  const Contraction contraction(c, extents);
  const ElementType type = c.out().type;
  ElementType wide = type;
  with_sum_type(type, [&]<class T>(T*) { wide = sum_type<T>(); });
  Labelled product = diagonal(c.in(0), equation.terms[0]);
  const Tensor one(type, {});
  store_block<float>({type, one.data(), 0, 0, 1}, {0, 1, 0, 1}, std::array{1.0F}.data(), 0);
  for (size_t i = 1; i <= equation.terms.size(); ++i) {
    const bool last = i == equation.terms.size();
    if (last && i > 1) break;  // a single operand is reduced by a GEMM with one
    Labels keep = equation.result;
    for (size_t later = i + 1; later < equation.terms.size(); ++later) {
      keep.insert(keep.end(), equation.terms[later].begin(), equation.terms[later].end());
    }
    const Labelled next = last ? Labelled{one.view(), {}, one}
                               : diagonal(c.in(static_cast<int>(i)), equation.terms[i]);
    product = contraction.run(product, next, keep, i + 1 < equation.terms.size() ? wide : type);
  }
  TensorView result = product.view;
  for (size_t axis = 0; axis < equation.result.size(); ++axis) {
    const auto at = static_cast<size_t>(
        std::find(product.labels.begin(), product.labels.end(), equation.result[axis]) -
        product.labels.begin());
    result.dims[axis] = product.view.dims[at];
    result.strides[axis] = product.view.strides[at];
  }
  copy_elements(result, c.out());
}

void infer_einsum(Infer& c) {
  std::vector<int> ranks;
  for (int i = 0; i < c.count(); ++i) ranks.push_back(c.rank(i));
  const Equation equation = read_equation(c, ranks);
  std::map<int, Dim> dims;
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    for (size_t axis = 0; axis < equation.terms[i].size(); ++axis) {
      const Dim& dim = c.dims(static_cast<int>(i))[axis];
      Dim& known = dims.try_emplace(equation.terms[i][axis], dim).first->second;
      known = c.broadcast(known, dim, "sizes of one label");
    }
  }
  std::vector<Dim> result;
  for (size_t axis = 0; axis < equation.result.size(); ++axis) {
    const int label = equation.result[axis];
    c.check(dims.count(label) == 1 &&
                std::count(equation.result.begin(), equation.result.end(), label) == 1,
            "axis {} of the result of '{}' is in no term, or twice in the result", axis,
            escape(c.text("equation")));
    result.push_back(dims.at(label));
  }
  c.result(c.element(0), std::move(result));
}

}  // namespace

static const Register einsum{{
    .name = "einsum",
    .doc = "Einstein summation: sum of products by an equation over axis labels.",
    .operands = {{.name = "operands", .types = kNumeric, .arity = Arity::variadic, .group = 'T'}},
    .attributes = {{"equation", AttributeKind::text}},
    .infer = infer_einsum,
    .eval = evaluate_einsum,
}};

}  // namespace lathe
