// SPDX-License-Identifier: MIT
#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

void infer_affine_grid(Infer& c) {
  require_rank(c, 0, 3);
  std::optional<int64_t> spatial = c.dim(0, 1).constant();
  if (!spatial) spatial = (element_count(c.dims(1)) - 2).constant();
  c.check(spatial == 2 || spatial == 3, "theta has {} rows, expected 2 or 3",
          c.dim(0, 1).to_string());
  c.require_equal(c.dim(0, 1), *spatial, "rows of theta");
  c.require_equal(c.dim(0, 2), *spatial + 1, "columns of theta");
  std::vector<Dim> dims = dims_of_elements(c, 1, 2, *spatial + 2, "grid");
  dims.insert(dims.begin(), c.dim(0, 0));
  dims.emplace_back(*spatial);
  c.result(c.element(0), std::move(dims));
}

// The coordinate of pixel i of n: -1 and 1 are the centres of the outer pixels if `align`, else
// their edges.
double base_coordinate(int64_t i, int64_t n, bool align) {
  if (!align) return (2 * static_cast<double>(i) + 1) / static_cast<double>(n) - 1;
  return n == 1 ? 0 : 2 * static_cast<double>(i) / static_cast<double>(n - 1) - 1;
}

void eval_affine_grid(Evaluation& c) {
  const Tensor theta = dense_tensor(c.in(0), ElementType::f64);
  const std::vector<int64_t> size = c.values(1);
  const auto spatial = static_cast<size_t>(theta.dims()[1]);
  c.check(size[0] == theta.dims()[0], "size has batch {}, theta has {}", size[0], theta.dims()[0]);
  Dims dims(size.begin() + 2, size.end());
  for (const int64_t dim : dims) c.check(dim >= 0, "size has the negative entry {}", dim);
  dims.insert(dims.begin(), size[0]);
  dims.push_back(static_cast<int64_t>(spatial));
  const DenseResult grid(c.out(0, dims), ElementType::f64);
  const bool align = c.boolean("align_corners");
  double* to = grid.as<double>();
  for_each_index(std::span(dims).first(spatial + 1), [&](std::span<const int64_t> at) {
    const double* matrix =
        theta.as<double>() + at[0] * static_cast<int64_t>(spatial * (spatial + 1));
    for (size_t row = 0; row < spatial; ++row) {
      double sum = matrix[row * (spatial + 1) + spatial];
      for (size_t k = 0; k < spatial; ++k) {  // x is the last axis
        sum += matrix[row * (spatial + 1) + k] *
               base_coordinate(at[spatial - k], dims[spatial - k], align);
      }
      *to++ = sum;
    }
  });
  grid.store();
}

}  // namespace

static const Register affine_grid{{
    .name = "affine_grid",
    .doc = "Sampling coordinates of an affine map: theta times the homogeneous coordinates of each "
           "pixel of `size`.",
    .operands = {{"theta", kFloats}, {"size", types(ElementType::i64)}},
    .attributes = {{"align_corners", Attribute(false)}},
    .on_host = {1},
    .infer = infer_affine_grid,
    .eval = eval_affine_grid,
}};

}  // namespace lathe
