// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ir/ops.h"
#include "ops/evaluation.h"
#include "targets/gpu/gemm_problem.h"

namespace lathe::gpu {
namespace {

// The one stride of axes that follow each other in memory; nullopt if there is none.
std::optional<int64_t> one_stride(std::span<const int64_t> sizes,
                                  std::span<const int64_t> strides) {
  std::optional<int64_t> stride;
  int64_t expected = 0;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (sizes[axis] == 1) continue;
    if (!stride) {
      stride = strides[axis];
    } else if (strides[axis] != expected) {
      return std::nullopt;
    }
    expected = strides[axis] * sizes[axis];
  }
  return stride ? stride : std::optional<int64_t>(0);
}

// A matrix over the rows and columns of a result, or with a depth of its own.
std::optional<LibraryMatrix> matrix_of(const Problem& problem, const Place& place,
                                       std::optional<int64_t> row, int64_t row_count,
                                       int64_t column, int64_t column_count) {
  const std::optional<int64_t> batch = one_stride(
      std::span(problem.batch_sizes).first(static_cast<size_t>(problem.batch_rank)), place.batch);
  if (!row || !batch) return std::nullopt;
  LibraryMatrix matrix{.data = place.data, .stride = *row, .batch = *batch, .transposed = false};
  // An axis of one element has any stride.
  if (column == 1 || column_count == 1) {
    if (row_count == 1) matrix.stride = column_count;
    return matrix.stride >= column_count ? std::optional(matrix) : std::nullopt;
  }
  matrix.transposed = true;
  matrix.stride = column;
  const bool contiguous = *row == 1 || row_count == 1;
  return contiguous && column >= row_count ? std::optional(matrix) : std::nullopt;
}

bool is_vector_along(const Type& type, const Type& result, int axis) {
  if (!type.is_ranked() || type.element != result.element) return false;
  const int skipped = result.rank() - type.rank();
  for (int i = 0; i < result.rank(); ++i) {
    const Dim own = i < skipped ? Dim(1) : (*type.dims)[static_cast<size_t>(i - skipped)];
    if (!(own == (i == axis ? (*result.dims)[static_cast<size_t>(i)] : Dim(1)))) return false;
  }
  return true;
}

bool is_gelu_tanh(const Instruction& instruction) {
  return instruction.op() == ops::gelu &&
         InstructionReader(instruction).text("approximate") == "tanh";
}

}  // namespace

std::optional<int64_t> row_stride(const Problem& problem, const Place& place) {
  return one_stride(std::span(problem.row_sizes).first(static_cast<size_t>(problem.row_rank)),
                    place.row);
}

bool rows_vary(const Type& type) {
  return !std::ranges::all_of(std::span(*type.dims).first(type.dims->size() - 1),
                              [](const Dim& dim) { return dim.constant().has_value(); });
}

LibraryEpilogue library_epilogue(const Anchor& anchor, int bias_axis,
                                 std::span<const size_t> sides) {
  LibraryEpilogue out;
  const Type& result = anchor.type();
  const auto add = [&](int side, const Type& type) {
    if (out.bias < 0 && is_vector_along(type, result, bias_axis)) {
      out.bias = side;
    } else if (out.residual < 0 && type == result) {
      out.residual = side;
    } else {
      out.complete = false;
    }
  };
  for (const size_t side : sides) {
    add(static_cast<int>(side), anchor.side_type(static_cast<int>(side)));
  }
  for (const Instruction* inner : anchor.chain()) {
    const bool last = out.activation != Activation::none;
    if (inner->op() == ops::add && !last) {
      const int side = anchor.side_of(*inner);
      if (side < 0) {
        out.complete = false;
      } else {
        add(side, anchor.side_type(side));
      }
    } else if (inner->op() == ops::relu && !last) {
      out.activation = Activation::relu;
    } else if (is_gelu_tanh(*inner) && !last) {
      out.activation = Activation::gelu_tanh;
    } else {
      out.complete = false;
    }
  }
  return out;
}

std::optional<LibraryProduct> library_product(const Problem& problem, std::span<const Place> places,
                                              int64_t a_depth, int64_t b_depth, ElementType type) {
  LibraryProduct product;
  product.type = type;
  product.m = problem.m;
  product.n = problem.n;
  product.k = problem.k;
  product.batches = problem.batches;
  if (product.k == 0) return std::nullopt;
  const auto a = matrix_of(problem, places[0], places[0].row[0], problem.m, a_depth, problem.k);
  const auto b = matrix_of(problem, places[1], b_depth, problem.k, places[1].column, problem.n);
  const auto y = matrix_of(problem, places[2], row_stride(problem, places[2]), problem.m,
                           places[2].column, problem.n);
  if (!a || !b || !y || y->transposed) return std::nullopt;
  product.a = *a;
  product.b = *b;
  product.y = *y;
  return product;
}

bool add_epilogue(LibraryProduct& product, const LibraryEpilogue& epilogue, const Problem& problem,
                  std::span<const Place> sides) {
  if (epilogue.residual >= 0) {
    const Place& side = sides[static_cast<size_t>(epilogue.residual)];
    const auto residual =
        matrix_of(problem, side, row_stride(problem, side), problem.m, side.column, problem.n);
    if (!residual || residual->transposed) return false;
    product.residual = *residual;
  }
  if (epilogue.bias >= 0) {
    const Place& side = sides[static_cast<size_t>(epilogue.bias)];
    if (side.column != 1 && problem.n > 1) return false;
    product.bias = side.data;
  }
  product.activation = epilogue.activation;
  return true;
}

}  // namespace lathe::gpu
