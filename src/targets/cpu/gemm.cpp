// SPDX-License-Identifier: MIT
#include "targets/cpu/gemm.h"

#include <algorithm>
#include <span>

#include "base/file_map.h"
#include "targets/cpu/kernels/gemm/half_panels.h"

namespace lathe::cpu {
namespace {

const void* element_at(const MatrixView& matrix) {
  return static_cast<const std::byte*>(matrix.data) + matrix.offset * info(matrix.type).bits / 8;
}

// Stride between the matrices of a batch; none if it is not uniform.
template <class F>
std::optional<int64_t> batch_stride(int64_t batch, F&& matrix_at) {
  if (batch == 1) return 0;
  const int64_t first = matrix_at(0).offset;
  const int64_t stride = matrix_at(1).offset - first;
  for (int64_t i = 2; i < batch; ++i) {
    if (matrix_at(i).offset - first != i * stride) return std::nullopt;
  }
  return stride;
}

PackSource source_of(const MatrixView& b, int64_t k, int64_t n) {
  return {element_at(b), b.type, k, n, b.row_stride, b.column_stride};
}

// `transposed` swaps rows and columns of the tensor; a vector is a column.
PackSource source_of(const Tensor& matrix, bool transposed) {
  const int64_t rows = matrix.dims()[0], columns = matrix.rank() == 1 ? 1 : matrix.dims()[1];
  if (transposed) return {matrix.data(), matrix.type(), columns, rows, 1, columns};
  return {matrix.data(), matrix.type(), rows, columns, columns, 1};
}

// Packs a large B in blocks of columns, whose mapped pages leave memory as they have been read:
// pack(first, count) packs columns.
template <class Pack>
void pack_by_blocks(const BrgemmKernel& kernel, bool panels_alone, const PackSource& source,
                    Pack pack) {
  constexpr int64_t kBlockBytes = int64_t{16} << 20, kSegmentBytes = int64_t{64} << 10;
  const int64_t size = info(source.type).bits / 8;
  const bool by_columns = source.k_stride == 1 && source.n_stride == source.k;
  const bool by_rows = source.n_stride == 1 && source.k_stride == source.n;
  if ((!by_columns && !by_rows) || !panels_alone || source.k * source.n * size <= kBlockBytes) {
    return pack(0, source.n);
  }
  const int64_t most = by_columns ? kBlockBytes / (source.k * size) : kSegmentBytes / size;
  const int64_t columns = std::max<int64_t>(most / kernel.panel_columns, 1) * kernel.panel_columns;
  for (int64_t first = 0; first < source.n; first += columns) {
    const int64_t count = std::min(columns, source.n - first);
    pack(first, count);
    const auto* data = static_cast<const std::byte*>(source.data) + first * source.n_stride * size;
    const int64_t segments = by_columns ? 1 : source.k;
    const auto bytes = static_cast<size_t>((by_columns ? source.k : 1) * count * size);
    for (int64_t i = 0; i < segments; ++i) {
      release_mapped({data + i * source.k_stride * size, bytes});
    }
  }
}

// Columns of B.
PackSource columns_of(const PackSource& source, int64_t first, int64_t count) {
  PackSource columns = source;
  columns.data = static_cast<const std::byte*>(source.data) +
                 first * source.n_stride * info(source.type).bits / 8;
  columns.n = count;
  return columns;
}

void set_matrices(const MatmulShape& shape, int64_t index, MatmulCall& call) {
  const MatrixView a = shape.a(index);
  call.m = shape.m;
  call.n = shape.n;
  call.k = shape.k;
  call.a = element_at(a);
  call.a_type = a.type;
  call.a_row_stride = a.row_stride;
  call.a_column_stride = a.column_stride;
  call.out = const_cast<void*>(element_at(shape.y(index)));
  call.out_row_stride = shape.n;
}

void run_one(const MatmulCall& call, const MatrixView& b, int64_t b_stride,
             const PackedMatrix* packed, ThreadPool* pool) {
  if (packed == nullptr) {
    matmul_dynamic(call, source_of(b, call.k, call.n), b_stride, pool);
    return;
  }
  MatmulCall with_b = call;
  with_b.b = packed->data();
  with_b.b_type = packed->stored_type();
  matmul(with_b, pool);
}

}  // namespace

std::optional<GemmType> gemm_type_of(ElementType a, ElementType b) {
  if (a == ElementType::bf16 && b == a) return GemmType::bf16;
  if ((a == ElementType::f32 || a == ElementType::f16) && b == a) return GemmType::f32;
  const bool int8 = b == ElementType::i8 || b == ElementType::u8;
  if (a == ElementType::u8 && int8) return GemmType::u8s8;
  if (a == ElementType::i8 && int8) return GemmType::s8s8;
  return std::nullopt;
}

std::optional<GemmType> gemm_type_of(const Instruction& product) {
  constexpr size_t kA = 0, kB = 1;
  if (attribute<std::string>(product, "compute_type") == "bf16") return GemmType::bf16;
  return gemm_type_of(element_of(product, kA), element_of(product, kB));
}

std::string why_no_gemm(ElementType a, ElementType b) {
  return gemm_type_of(a, b)
             ? ""
             : fmt::format("no GEMM kernel for {} and {}", to_string(a), to_string(b));
}

PackedMatrix::PackedMatrix(const Tensor& matrix, bool transposed, GemmType type, Isa isa)
    : type_(type), isa_(isa) {
  pack(matrix, transposed);
}

PackedMatrix::PackedMatrix(const PanelSource& source, Isa isa) : type_(source.type), isa_(isa) {
  const Tensor& first = *source.parts[0];
  if (type_ == GemmType::f32 && first.type() != ElementType::f32) {
    stored_type_ = first.type();
    pack_halves(source.parts, source.transposed);
  } else {
    pack(first, source.transposed);
  }
}

void PackedMatrix::pack(const Tensor& matrix, bool transposed) {
  const PackSource shape = source_of(matrix, transposed);
  k_ = shape.k;
  n_ = shape.n;
  layout_ = packed_layout(kernel(), type_, k_, n_);
  const Tensor* sources[] = {&matrix};
  const bool panels_alone = type_ == GemmType::f32 || type_ == GemmType::bf16;
  const auto pack = [&](void* to, ThreadPool* pool) {
    const Tensor aligned = matrix.aligned();  // in a file it may lie anywhere
    const PackSource source = source_of(aligned, transposed);
    pack_by_blocks(kernel(), panels_alone, source, [&](int64_t first, int64_t count) {
      const int64_t panel = first / kernel().panel_columns;
      pack_b(kernel(), type_, columns_of(source, first, count),
             static_cast<std::byte*>(to) + panel * layout_.panel_bytes, pool);
    });
  };
  weights_ =
      packed_weights(sources, packing_id(kernel(), type_) + (transposed ? " transposed" : ""),
                     static_cast<size_t>(layout_.bytes), pack);
}

void PackedMatrix::pack_halves(std::span<const Tensor* const> halves, bool transposed) {
  for (const Tensor* half : halves) {
    const PackSource source = source_of(*half, transposed);
    k_ = source.k;
    n_ += source.n;
  }
  layout_ = half_panels_layout(kernel(), k_, n_);
  const auto pack = [&](void* to, ThreadPool* pool) {
    HalfPart part{.first = 0, .panels = layout_.panels};
    for (const Tensor* half : halves) {
      const Tensor aligned = half->aligned();
      const PackSource source = source_of(aligned, transposed);
      pack_by_blocks(kernel(), true, source, [&](int64_t first, int64_t count) {
        pack_half_panels(kernel(), source, first / kernel().panel_columns,
                         panel_count(kernel(), count), to, pool, part);
      });
      release_mapped({half->as<std::byte>(), static_cast<size_t>(half->byte_size())});
      part.first += panel_count(kernel(), source.n);
    }
  };
  const std::string id =
      fmt::format("{}{}{}", half_panels_id(kernel(), stored_type_), transposed ? " transposed" : "",
                  halves.size() > 1 ? ", joined" : "");
  weights_ = packed_weights(halves, id, static_cast<size_t>(layout_.bytes), pack);
}

void PackedMatrix::read_column(int64_t column, void* to) const {
  const bool halves = stored_type_ != ElementType::f32;
  const PanelColumn from = halves ? column_of_half_panels(kernel(), layout_, data(), column)
                                  : column_of_b(kernel(), layout_, data(), column);
  cpu::read_column(from, k_ * (halves ? 2 : a_size(type_)), to);
}

void run_gemm(const MatmulShape& shape, int64_t index, MatmulCall call, const PackedMatrix* packed,
              ThreadPool* pool) {
  set_matrices(shape, index, call);
  run_one(call, shape.b(index), 0, packed, pool);
}

void run_gemms(const MatmulShape& shape, MatmulCall call, const PackedMatrix* packed,
               ThreadPool* pool) {
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0) return;
  set_matrices(shape, 0, call);
  const auto a_stride = batch_stride(shape.batch, [&](int64_t i) { return shape.a(i); });
  const auto b_stride = batch_stride(shape.batch, [&](int64_t i) { return shape.b(i); });
  if (a_stride && b_stride && (*b_stride != 0 || packed != nullptr || shape.batch == 1)) {
    // One B and consecutive A matrices: one GEMM with more rows. Matrices of one row are
    // consecutive at any stride.
    const bool one = shape.batch > 1 && *b_stride == 0 && call.a_zeros == nullptr &&
                     (shape.m == 1 || *a_stride == shape.m * call.a_row_stride);
    if (one) {
      if (shape.m == 1) call.a_row_stride = *a_stride;
      call.m *= shape.batch;
    } else {
      call.batch = shape.batch;
      call.a_batch_stride = *a_stride;
      call.out_batch_stride = shape.m * shape.n;
    }
    run_one(call, shape.b(0), *b_stride, packed, pool);
    return;
  }
  for (int64_t i = 0; i < shape.batch; ++i) {
    // Steps read rows of all matrices; zero points of integers are per matrix.
    if (call.type == GemmType::f32 || call.type == GemmType::bf16) call.first_row = i * shape.m;
    run_gemm(shape, i, call, packed, pool);
  }
}

}  // namespace lathe::cpu
