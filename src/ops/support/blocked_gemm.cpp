// SPDX-License-Identifier: MIT
#include "ops/support/blocked_gemm.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/thread_pool.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace lathe {
namespace {

// A tile of C is kRows × kColumns. K is split into steps of kDepth, between which accumulators are
// in memory: a block of B stays in L2, a strip of it in L1.
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = kGemmColumns;
constexpr int64_t kDepth = 256;
constexpr int64_t kPitch = kColumns + 16;  // not a power of two: rows must not share cache sets

template <class T>
struct Scratch {
  alignas(64) T a[kRows * kDepth];
  alignas(64) T b[kDepth * kPitch];
  alignas(64) T c[kRows * kPitch];
};

template <class T>
Scratch<T>& scratch() {
  thread_local const std::unique_ptr<Scratch<T>> mine = std::make_unique<Scratch<T>>();
  return *mine;
}

template <class T>
using Lanes [[gnu::vector_size(32)]] = T;

// c[Rows × Vectors·lanes] += a[Rows × depth] · b: multiply, round, add, in order of depth.
template <class T, int Rows, int Vectors>
[[gnu::always_inline]] inline void strip(int64_t depth, const T* a, const T* b, T* c) {
  constexpr int64_t lanes = 32 / sizeof(T);
  Lanes<T> sums[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) {
      std::memcpy(&sums[r][v], c + r * kPitch + v * lanes, 32);
    }
  }
  for (int64_t d = 0; d < depth; ++d) {
    Lanes<T> columns[Vectors];
    std::memcpy(columns, b + d * kPitch, sizeof columns);
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < Vectors; ++v) sums[r][v] += columns[v] * a[r * kDepth + d];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) {
      std::memcpy(c + r * kPitch + v * lanes, &sums[r][v], 32);
    }
  }
}

template <class T, int Vectors>
[[gnu::always_inline]] inline void accumulate(int64_t rows, int64_t columns, int64_t depth,
                                              Scratch<T>& s) {
  constexpr int64_t width = Vectors * 32 / sizeof(T);
  for (int64_t n = 0; n < columns; n += width) {
    int64_t m = 0;
    for (; m + 4 <= rows; m += 4) {
      strip<T, 4, Vectors>(depth, s.a + m * kDepth, s.b + n, s.c + m * kPitch + n);
    }
    for (; m < rows; ++m) {
      strip<T, 1, Vectors>(depth, s.a + m * kDepth, s.b + n, s.c + m * kPitch + n);
    }
  }
}

// Equal arithmetic at both widths (no fused multiply-add): equal bits.
template <class T>
void accumulate_narrow(int64_t rows, int64_t columns, int64_t depth, Scratch<T>& s) {
  accumulate<T, 1>(rows, columns, depth, s);
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2")]] void accumulate_wide(int64_t rows, int64_t columns, int64_t depth,
                                             Scratch<T>& s) {
  accumulate<T, 2>(rows, columns, depth, s);
}

template <class T>
auto pick_accumulate() {
  return __builtin_cpu_supports("avx2") ? accumulate_wide<T> : accumulate_narrow<T>;
}
#else
template <class T>
auto pick_accumulate() {
  return accumulate_narrow<T>;
}
#endif

// True if memory of this type holds elements of type T.
template <class T>
bool is_sum(ElementType type) {
  return type == sum_type<T>() ||
         (std::is_integral_v<T> && is_integer(type) && info(type).bits == 8 * sizeof(T));
}

}  // namespace

template <class T>
void load_run(const MatrixView& matrix, int64_t offset, int64_t stride, int64_t count, T* to) {
  const auto* bytes = static_cast<const std::byte*>(matrix.data);
  const int64_t size = info(matrix.type).bits / 8;
  if (is_sum<T>(matrix.type)) {
    const T* from = static_cast<const T*>(matrix.data) + offset;
    if (stride == 1) {
      std::copy(from, from + count, to);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
    }
  } else if (stride == 1) {
    convert(sum_type<T>(), to, matrix.type, bytes + offset * size, count);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      convert(sum_type<T>(), to + i, matrix.type, bytes + (offset + i * stride) * size, 1);
    }
  }
}

template <class T>
void BlockedGemm<T>::run_tile(int64_t b, int64_t row, int64_t column) const {
  static const auto accumulate_block = pick_accumulate<T>();
  Scratch<T>& s = scratch<T>();
  const int64_t rows = std::min(kRows, m - row);
  const int64_t columns = std::min(kColumns, n - column);
  std::fill(s.c, s.c + rows * kPitch, T{});
  for (int64_t at = 0; at < k; at += kDepth) {
    const int64_t depth = std::min(kDepth, k - at);
    load_a(b, {row, rows, at, depth}, s.a, kDepth);
    load_b(b, {at, depth, column, columns}, s.b, kPitch);
    accumulate_block(rows, columns, depth, s);
  }
  store(b, {row, rows, column, columns}, s.c, kPitch);
}

template <class T>
void BlockedGemm<T>::run(ThreadPool* pool) const {
  if (m == 0 || n == 0) return;
  const int64_t row_tiles = (m - 1) / kRows + 1;
  const int64_t column_tiles = (n - 1) / kColumns + 1;
  // Batches small tiles into one chunk of at least about 2^18 multiplications.
  const int64_t work = std::max<int64_t>(1, std::min(m, kRows) * std::min(n, kColumns) * k);
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 18) / work);
  parallel_for(pool, batch * row_tiles * column_tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t in_batch = tile % (row_tiles * column_tiles);
      run_tile(tile / (row_tiles * column_tiles), in_batch / column_tiles * kRows,
               in_batch % column_tiles * kColumns);
    }
  });
}

template <class T>
void load_block(const MatrixView& matrix, const Block& block, T* to, int64_t pitch) {
  const int64_t start =
      matrix.offset + block.row * matrix.row_stride + block.column * matrix.column_stride;
  if (is_sum<T>(matrix.type) && matrix.column_stride != 1) {
    // Transposed B: strips of 16 columns, so that both sides stay in cache.
    const T* from = static_cast<const T*>(matrix.data) + start;
    for (int64_t strip = 0; strip < block.columns; strip += 16) {
      const int64_t end = std::min(block.columns, strip + 16);
      for (int64_t r = 0; r < block.rows; ++r) {
        const T* source = from + r * matrix.row_stride;
        for (int64_t c = strip; c < end; ++c) to[r * pitch + c] = source[c * matrix.column_stride];
      }
    }
    return;
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    load_run(matrix, start + r * matrix.row_stride, matrix.column_stride, block.columns,
             to + r * pitch);
  }
}

template <class T>
void store_block(const MatrixView& matrix, const Block& block, const T* from, int64_t pitch) {
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(matrix.data));
  const int64_t size = info(matrix.type).bits / 8;
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t start =
        matrix.offset + (block.row + r) * matrix.row_stride + block.column * matrix.column_stride;
    const int64_t run = matrix.column_stride == 1 ? block.columns : 1;
    for (int64_t c = 0; c < block.columns; c += run) {
      std::byte* to = bytes + (start + c * matrix.column_stride) * size;
      if (is_sum<T>(matrix.type)) {
        std::memcpy(to, from + r * pitch + c, static_cast<size_t>(run * size));
      } else {
        convert(matrix.type, to, sum_type<T>(), from + r * pitch + c, run);
      }
    }
  }
}

template class BlockedGemm<float>;
void round_to_bf16(const Block& block, float* values, int64_t pitch) {
  for (int64_t row = 0; row < block.rows; ++row) {
    for (float* x = values + row * pitch; x != values + row * pitch + block.columns; ++x) {
      *x = bf16_to_float(float_to_bf16(*x));
    }
  }
}

template void load_run(const MatrixView&, int64_t, int64_t, int64_t, float*);
template void load_block(const MatrixView&, const Block&, float*, int64_t);
template void store_block(const MatrixView&, const Block&, const float*, int64_t);
template class BlockedGemm<double>;
template void load_run(const MatrixView&, int64_t, int64_t, int64_t, double*);
template void load_block(const MatrixView&, const Block&, double*, int64_t);
template void store_block(const MatrixView&, const Block&, const double*, int64_t);
template class BlockedGemm<uint32_t>;
template void load_run(const MatrixView&, int64_t, int64_t, int64_t, uint32_t*);
template void load_block(const MatrixView&, const Block&, uint32_t*, int64_t);
template void store_block(const MatrixView&, const Block&, const uint32_t*, int64_t);
template class BlockedGemm<uint64_t>;
template void load_run(const MatrixView&, int64_t, int64_t, int64_t, uint64_t*);
template void load_block(const MatrixView&, const Block&, uint64_t*, int64_t);
template void store_block(const MatrixView&, const Block&, const uint64_t*, int64_t);

}  // namespace lathe
