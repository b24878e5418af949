// SPDX-License-Identifier: MIT
// Compares slices along an axis (default: elements) as rows of a matrix. NaNs are equal and come
// last.
#include <algorithm>
#include <numeric>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/support/number_order.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_unique(Infer& c) {
  const bool flat = !c.has_attribute("axis");
  std::vector<Dim> dims = flat ? std::vector<Dim>{element_count(c.dims(0))} : c.dims(0);
  Dim& extent = dims[static_cast<size_t>(flat ? 0 : c.axis("axis", c.rank(0)))];
  const Dim all = extent;
  const Dim count = c.found("unique", {0, all.range().max});
  extent = count;
  c.result(c.element(0), std::move(dims));
  c.result(ElementType::i64, {count});
  c.result(ElementType::i64, {all});
  c.result(ElementType::i64, {count});
}

struct Groups {
  std::vector<int64_t> first;    // per unique row: its first occurrence
  std::vector<int64_t> inverse;  // per row: its unique row
  std::vector<int64_t> count;
};

// Rows of a dense matrix of any element type.
struct Matrix {
  const void* data;
  int64_t rows;
  int64_t width;
  int (*order)(const Matrix&, int64_t, int64_t);  // compares two rows
};

template <class T>
int order_rows(const Matrix& m, int64_t i, int64_t j) {
  const T* data = static_cast<const T*>(m.data);
  for (int64_t k = 0; k < m.width; ++k) {
    if (const int c = compare(data[i * m.width + k], data[j * m.width + k]); c != 0) return c;
  }
  return 0;
}

// Unique rows, in ascending order or in order of first occurrence.
Groups group_rows(const Matrix& matrix, bool sorted) {
  const auto order = [&](int64_t i, int64_t j) { return matrix.order(matrix, i, j); };
  std::vector<int64_t> places(static_cast<size_t>(matrix.rows));
  std::iota(places.begin(), places.end(), int64_t{0});
  std::sort(places.begin(), places.end(), [&](int64_t i, int64_t j) {
    const int c = order(i, j);
    return c < 0 || (c == 0 && i < j);
  });
  Groups groups;
  groups.inverse.resize(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || order(places[i - 1], places[i]) != 0) {
      groups.first.push_back(places[i]);
      groups.count.push_back(0);
    }
    ++groups.count.back();
    groups.inverse[static_cast<size_t>(places[i])] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  std::vector<size_t> by_place(groups.first.size());
  std::iota(by_place.begin(), by_place.end(), size_t{0});
  std::sort(by_place.begin(), by_place.end(),
            [&](size_t a, size_t b) { return groups.first[a] < groups.first[b]; });
  Groups out;
  std::vector<int64_t> renamed(by_place.size());
  for (const size_t from : by_place) {
    renamed[from] = static_cast<int64_t>(out.first.size());
    out.first.push_back(groups.first[from]);
    out.count.push_back(groups.count[from]);
  }
  for (const int64_t group : groups.inverse) {
    out.inverse.push_back(renamed[static_cast<size_t>(group)]);
  }
  return out;
}

void store_integers(Evaluation& c, int i, const std::vector<int64_t>& values) {
  const TensorView& out = c.out(i, std::array{static_cast<int64_t>(values.size())});
  for (size_t k = 0; k < values.size(); ++k) {
    out.as<int64_t>()[static_cast<int64_t>(k) * out.strides[0]] = values[k];
  }
}

void eval_unique(Evaluation& c) {
  const ConvertedOperand given(c.in(0), arithmetic_type(c.in(0).type));
  TensorView x = given.view();
  const bool flat = !c.has_attribute("axis");
  const int axis = flat ? 0 : c.axis("axis", x.rank);
  // Moves the axis to the front: its slices are the rows.
  std::vector<int64_t> order;
  if (!flat) order.push_back(axis);
  for (int i = 0; i < x.rank; ++i) {
    if (flat || i != axis) order.push_back(i);
  }
  const TensorView front = permuted(x, order);
  const int64_t rows = flat ? x.count() : x.dims[axis];
  const Tensor matrix(x.type, {rows, rows == 0 ? 0 : x.count() / rows});
  copy_flat(front, matrix.view());

  Matrix compared{matrix.data(), rows, matrix.dims()[1], order_rows<std::string>};
  if (x.type != ElementType::string) {
    with_number_type(x.type, [&](auto* tag) {
      compared.order = order_rows<std::remove_pointer_t<decltype(tag)>>;
    });
  }
  const Groups groups = group_rows(compared, c.boolean("sorted"));
  Dims dims = flat ? Dims{rows} : dims_of(x);
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(groups.first.size());
  const ConvertedResult out(c.out(0, dims), x.type);
  for (size_t i = 0; i < groups.first.size(); ++i) {
    const TensorView to = narrow(out.view(), axis, static_cast<int64_t>(i), 1);
    const TensorView row = narrow(matrix.view(), 0, groups.first[i], 1);
    copy_flat(row, to);
  }
  out.store();
  store_integers(c, 1, groups.first);
  store_integers(c, 2, groups.inverse);
  store_integers(c, 3, groups.count);
}

}  // namespace

static const Register unique{{
    .name = "unique",
    .doc = "The unique slices along an axis (default: elements), the first index of each, "
           "the inverse indices, and the counts.",
    .operands = {{"x", kNumeric | kBoolean | kString}},
    .attributes = {{"axis", AttributeKind::integer, false}, {"sorted", Attribute(true)}},
    .results = 4,
    .infer = infer_unique,
    .eval = eval_unique,
}};

}  // namespace lathe
