// SPDX-License-Identifier: MIT
// A as brgemm reads it: in place, or copied because of its type, strides or cache-set conflicts.
#pragma once

#include <cstdint>
#include <vector>

#include "targets/cpu/kernels/gemm/brgemm.h"
#include "tensor/element_type.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

struct MatmulCall;

// GEMM type that the kernel runs. s8s8 becomes u8s8, with a copy of A, where the kernel would flip
// signs for each of many panels.
GemmType kernel_type(const MatmulCall& call);

class PackedRowsOfA {
 public:
  PackedRowsOfA(const MatmulCall& call, const BrgemmKernel& kernel, ThreadPool* pool);

  const char* address(int64_t batch, int64_t row, int64_t k) const {
    return data_ + batch * batch_bytes_ + row * row_bytes_ + k * element_;
  }
  int64_t row_stride() const { return row_bytes_; }
  // Integers: the sum of each row, batch by batch.
  std::vector<int32_t> sums() const;

 private:
  void copy(ThreadPool* pool);

  const MatmulCall& call_;
  const char* data_ = nullptr;
  int64_t element_ = 4;  // bytes
  int64_t row_bytes_ = 0;
  int64_t batch_bytes_ = 0;
  bool flips_ = false;
};

// to[i] += from[i], as f32 or i32.
void add_row(const float* from, int64_t count, bool integers, float* to);

}  // namespace lathe::cpu
