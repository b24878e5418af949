// SPDX-License-Identifier: MIT
// Blocked GEMM: the inner loop of matmul, convolution and their quantised variants.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/tensor.h"

namespace lathe {

class ThreadPool;

// A block of a matrix: rows [row, row + rows), columns [column, column + columns).
struct Block {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
};

// Largest block of results, in columns.
inline constexpr int64_t kGemmColumns = 128;

// C[b] = A[b] (m × k) times B[b] (k × n) for every batch b. Each element accumulates in order of k,
// independent of blocks, threads and processor; integers wrap (T is unsigned). A derived class
// loads blocks, row-major with `pitch` elements per row, and stores results.
template <class T>
class BlockedGemm {
 public:
  virtual ~BlockedGemm() = default;
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  virtual void load_a(int64_t b, const Block& block, T* to, int64_t pitch) const = 0;
  virtual void load_b(int64_t b, const Block& block, T* to, int64_t pitch) const = 0;
  virtual void store(int64_t b, const Block& block, const T* from, int64_t pitch) const = 0;
  void run(ThreadPool* pool) const;

 private:
  void run_tile(int64_t b, int64_t row, int64_t column) const;
};

extern template class BlockedGemm<float>;
extern template class BlockedGemm<double>;
extern template class BlockedGemm<uint32_t>;
extern template class BlockedGemm<uint64_t>;

// Two axes of a tensor as a matrix.
struct MatrixView {
  ElementType type = ElementType::f32;
  const void* data = nullptr;
  int64_t offset = 0;  // in elements, as the strides
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// Loads `count` elements from `offset` on at `stride`.
template <class T>
void load_run(const MatrixView& matrix, int64_t offset, int64_t stride, int64_t count, T* to);

// Loads and stores blocks as accumulator type T (uint32_t and uint64_t hold i32 and i64).
template <class T>
void load_block(const MatrixView& matrix, const Block& block, T* to, int64_t pitch);
template <class T>
void store_block(const MatrixView& matrix, const Block& block, const T* from, int64_t pitch);

// Rounds the elements of a loaded block to bf16.
void round_to_bf16(const Block& block, float* values, int64_t pitch);

// GEMM of two matrices in memory.
template <class T>
class MatrixGemm final : public BlockedGemm<T> {
 public:
  MatrixGemm(const MatrixView& left, const MatrixView& right, const MatrixView& result,
             int64_t rows, int64_t columns, int64_t depth)
      : a(left), b(right), y(result) {
    this->m = rows;
    this->n = columns;
    this->k = depth;
  }
  void load_a(int64_t, const Block& block, T* to, int64_t pitch) const override {
    load_block(a, block, to, pitch);
  }
  void load_b(int64_t, const Block& block, T* to, int64_t pitch) const override {
    load_block(b, block, to, pitch);
  }
  void store(int64_t, const Block& block, const T* from, int64_t pitch) const override {
    store_block(y, block, from, pitch);
  }
  MatrixView a;
  MatrixView b;
  MatrixView y;
};

// The element type with the bits of T: f32, f64, i32, i64.
template <class T>
constexpr ElementType sum_type() {
  if constexpr (std::is_same_v<T, float>) return ElementType::f32;
  if constexpr (std::is_same_v<T, double>) return ElementType::f64;
  if constexpr (std::is_same_v<T, uint32_t>) return ElementType::i32;
  return ElementType::i64;
}

// Calls `f` with a null pointer of the accumulator type for this element type.
template <class F>
void with_sum_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::f64:
      return f(static_cast<double*>(nullptr));
    case ElementType::i8:
    case ElementType::i16:
    case ElementType::i32:
    case ElementType::u8:
    case ElementType::u16:
    case ElementType::u32:
      return f(static_cast<uint32_t*>(nullptr));
    case ElementType::i64:
    case ElementType::u64:
      return f(static_cast<uint64_t*>(nullptr));
    default:
      return f(static_cast<float*>(nullptr));
  }
}

}  // namespace lathe
