// SPDX-License-Identifier: MIT
#include "ops/support/matmul.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/token_step.h"

namespace lathe {

// numpy's rule: a vector is a row on the left and a column on the right, and its axis is dropped.
std::vector<Dim> matmul_dims(Infer& c, int a, int b) {
  c.check(c.rank(a) > 0 && c.rank(b) > 0, "operands have ranks {} and {}, expected at least 1",
          c.rank(a), c.rank(b));
  std::vector<Dim> left = c.dims(a);
  std::vector<Dim> right = c.dims(b);
  c.require_equal(left.back(), right[right.size() > 1 ? right.size() - 2 : 0],
                  "columns of a and rows of b");
  const bool row = left.size() > 1;
  const bool column = right.size() > 1;
  const Dim m = row ? left[left.size() - 2] : Dim(1);
  const Dim n = column ? right.back() : Dim(1);
  left.resize(left.size() - (row ? 2 : 1));
  right.resize(right.size() - (column ? 2 : 1));
  std::vector<Dim> dims = c.broadcast(left, right);
  if (row) dims.push_back(m);
  if (column) dims.push_back(n);
  return dims;
}

MatmulShape::MatmulShape(const TensorView& a, const TensorView& b, const TensorView& y)
    : row_(a.rank > 1), column_(b.rank > 1), a_(a), b_(b), y_(y) {
  m = row_ ? a.dims[static_cast<size_t>(a.rank - 2)] : 1;
  n = column_ ? b.dims[static_cast<size_t>(b.rank - 1)] : 1;
  k = a.dims[static_cast<size_t>(a.rank - 1)];
  batch_rank_ = y.rank - (row_ ? 1 : 0) - (column_ ? 1 : 0);
  for (int axis = 0; axis < batch_rank_; ++axis) batch *= y.dims[static_cast<size_t>(axis)];
}

// Offset of batch `index`; missing and broadcast axes have stride 0.
int64_t MatmulShape::offset(const TensorView& view, int matrix_axes, int64_t index) const {
  int64_t at = 0;
  for (int axis = batch_rank_ - 1; axis >= 0; --axis) {
    const int64_t extent = y_.dims[static_cast<size_t>(axis)];
    const int own = axis - batch_rank_ + (view.rank - matrix_axes);
    if (own >= 0 && view.dims[static_cast<size_t>(own)] != 1) {
      at += index % extent * view.strides[static_cast<size_t>(own)];
    }
    index /= extent;
  }
  return at;
}

namespace {

int64_t stride_at(const TensorView& view, int axis) {
  return view.strides[static_cast<size_t>(axis)];
}

}  // namespace

MatrixView MatmulShape::a(int64_t index) const {
  return {a_.type, a_.data, offset(a_, row_ ? 2 : 1, index), row_ ? stride_at(a_, a_.rank - 2) : 0,
          stride_at(a_, a_.rank - 1)};
}

MatrixView MatmulShape::b(int64_t index) const {
  return {b_.type, b_.data, offset(b_, column_ ? 2 : 1, index),
          stride_at(b_, b_.rank - (column_ ? 2 : 1)), column_ ? stride_at(b_, b_.rank - 1) : 0};
}

MatrixView MatmulShape::y(int64_t index) const {
  const int last = y_.rank - 1;
  return {y_.type, y_.data, offset(y_, y_.rank - batch_rank_, index),
          row_ ? stride_at(y_, column_ ? last - 1 : last) : 0, column_ ? stride_at(y_, last) : 0};
}

namespace {

template <class T>
struct Matmul final : BlockedGemm<T> {
  Matmul(const MatmulShape& s, bool rounds_operands) : shape(s), rounds(rounds_operands) {
    this->batch = s.batch;
    this->m = s.m;
    this->n = s.n;
    this->k = s.k;
  }
  void load_a(int64_t b, const Block& block, T* to, int64_t pitch) const override {
    load_block(shape.a(b), block, to, pitch);
    round(block, to, pitch);
  }
  void load_b(int64_t b, const Block& block, T* to, int64_t pitch) const override {
    load_block(shape.b(b), block, to, pitch);
    round(block, to, pitch);
  }
  void store(int64_t b, const Block& block, const T* from, int64_t pitch) const override {
    store_block(shape.y(b), block, from, pitch);
  }
  void round(const Block& block, T* to, int64_t pitch) const {
    if constexpr (std::is_same_v<T, float>) {
      if (rounds) round_to_bf16(block, to, pitch);
    }
  }
  const MatmulShape& shape;
  bool rounds;
};

}  // namespace

void check_compute_type(Infer& c) {
  const std::string& compute = c.text("compute_type");
  c.check(compute.empty() ||
              (compute == "bf16" && is_floating(c.element(0)) && c.element(0) != ElementType::f64),
          "compute_type is '{}' for operands of {}, expected '', or bf16 for floats below f64",
          escape(compute), to_string(c.element(0)));
}

static const Register matmul{{
    .name = "matmul",
    .doc = "Matrix multiplication of the last two axes with broadcast batches, as numpy.matmul; "
           "operands are rounded to bf16 first if compute_type is bf16.",
    .operands = {{.name = "a", .types = kMatmulTypes, .group = 1},
                 {.name = "b", .types = kMatmulTypes, .group = 1}},
    .attributes = {{"compute_type", ""}},
    .infer =
        [](Infer& c) {
          check_compute_type(c);
          c.result(c.element(0), matmul_dims(c, 0, 1));
        },
    .eval =
        [](Evaluation& c) {
          const MatmulShape shape(c.in(0), c.in(1), c.out());
          with_sum_type(c.in(0).type, [&]<class T>(T*) {
            Matmul<T>(shape, !c.text("compute_type").empty()).run(c.pool);
          });
        },
    .tokens = matmul_tokens,
}};

}  // namespace lathe
