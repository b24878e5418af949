// SPDX-License-Identifier: MIT
#include "ops/support/dense_operand.h"
#include "ops/support/requirements.h"

namespace lathe {

static const Register affine_grid{{
    .name = "affine_grid",
    .doc = "Sampling coordinates: theta times the homogeneous coordinates of each pixel of `size`.",
    .operands = {{"theta", kFloats}, {"size", types(ElementType::i64)}},
    .attributes = {{"align_corners", Attribute(false)}},
    .on_host = {1},
    .infer =
        [](Infer& c) {
          require_rank(c, 0, 3);
          const Dim axes = c.dim(0, 1).is_constant() ? c.dim(0, 1) : element_count(c.dims(1)) - 2;
          c.check(axes == 2 || axes == 3, "theta has {} rows, expected 2 or 3", axes.to_string());
          c.require_equal(c.dim(0, 1), axes, "rows of theta");
          c.require_equal(c.dim(0, 2), axes + 1, "columns of theta");
          std::vector<Dim> dims = dims_of_elements(c, 1, 2, *axes.constant() + 2, "grid");
          dims.insert(dims.begin(), c.dim(0, 0));
          dims.push_back(axes);
          c.result(c.element(0), std::move(dims));
        },
    .eval =
        [](Evaluation& c) {
          const DenseOperand theta(c.in(0), ElementType::f64);
          const int64_t axes = theta.extent(1);
          Dims dims = c.values(1);
          c.check(dims[0] == theta.extent(0), "size has batch {}, expected {}", dims[0],
                  theta.extent(0));
          dims.erase(dims.begin() + 1);
          dims.push_back(axes);
          const DenseResult grid(c.out(0, dims), ElementType::f64);
          // Pixel i of n is at (2 i + 1) / n - 1; aligned corners are at -1 and 1.
          const int align = c.boolean("align_corners") ? 1 : 0;
          double* to = grid.as<double>();
          for_each_index(dims, [&](std::span<const int64_t> at) {
            const double* row = theta.as<double>() + (at[0] * axes + at.back()) * (axes + 1);
            *to = row[axes];
            for (size_t axis = dims.size() - 2; axis > 0; --axis) {  // x is the last axis
              const auto n = static_cast<double>(dims[axis] - align);
              *to += *row++ * (n == 0 ? 0 : static_cast<double>(2 * at[axis] + 1 - align) / n - 1);
            }
            ++to;
          });
          grid.store();
        },
}};

}  // namespace lathe
