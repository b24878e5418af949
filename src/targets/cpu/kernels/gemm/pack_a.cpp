// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/pack_a.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/kernels/gemm/matmul.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

constexpr int kSign = 0x80;

ElementType element_type(GemmType type) {
  switch (type) {
    case GemmType::f32:
      return ElementType::f32;
    case GemmType::bf16:
      return ElementType::bf16;
    case GemmType::u8s8:
      return ElementType::u8;
    case GemmType::s8s8:
      return ElementType::i8;
  }
  return ElementType::f32;
}

}  // namespace

GemmType kernel_type(const MatmulCall& call) {
  constexpr int64_t kMaxDecodeRows = 4, kMinPanels = 4;
  const BrgemmKernel& kernel = brgemm_kernel(call.isa, call.type);
  const bool flips = kernel.a_zero_shift != 0 && call.a_column_stride == 1 &&
                     call.m > kMaxDecodeRows && call.n >= kMinPanels * kernel.panel_columns;
  return flips ? GemmType::u8s8 : call.type;
}

PackedRowsOfA::PackedRowsOfA(const MatmulCall& call, const BrgemmKernel& kernel, ThreadPool* pool)
    : call_(call), element_(a_size(call.type)) {
  const ElementType type = element_type(call.type);
  const bool right_type = call.a_type == type;
  const bool floats = !has_integer_sums(call.type);
  check(right_type ||
            (floats && (call.a_type == ElementType::f32 || call.a_type == ElementType::f16 ||
                        call.a_type == ElementType::bf16)),
        ErrorKind::invalid_argument, "GEMM: A has type {}, expected {}", to_string(call.a_type),
        to_string(type));
  data_ = static_cast<const char*>(call.a);
  row_bytes_ = call.a_row_stride * element_;
  batch_bytes_ = call.a_batch_stride * element_;
  // A copy pays if many panels read each cache line again for the next k.
  const bool with_set_conflicts = call.m >= kernel.row_tile && call.n >= 2 * kernel.panel_columns &&
                                  has_set_conflicts(kernel, row_bytes_);
  flips_ = kernel_type(call) != call.type;
  if (!right_type || flips_ || (call.a_column_stride != 1 && call.k > 1) || with_set_conflicts)
    copy(pool);
}

void PackedRowsOfA::copy(ThreadPool* pool) {
  const int64_t pitch = conflict_free_row_bytes(call_.k * element_);
  const int64_t rows = call_.batch * call_.m;
  const ElementType type = element_type(call_.type);
  const int64_t from_element = info(call_.a_type).bits / 8;
  const VectorOps& ops = vector_ops(call_.isa);
  const auto copy_row = [&](const char* from, char* to) {
    if (call_.a_column_stride != 1) {
      for (int64_t i = 0; i < call_.k; ++i) {
        lathe::convert(type, to + i * element_, call_.a_type,
                       from + i * call_.a_column_stride * from_element, 1);
      }
    } else if (flips_) {
      for (int64_t i = 0; i < call_.k; ++i) to[i] = static_cast<char>(from[i] ^ kSign);
    } else if (call_.a_type == type) {
      std::memcpy(to, from, static_cast<size_t>(call_.k * element_));
    } else if (call_.a_type == ElementType::f32) {
      ops.to_bf16(reinterpret_cast<const float*>(from), reinterpret_cast<uint16_t*>(to), call_.k);
    } else {
      lathe::convert(type, to, call_.a_type, from, call_.k);
    }
  };
  const int64_t grain = std::max<int64_t>(1, (32 << 10) / pitch);
  char* out = reinterpret_cast<char*>(thread_scratch(ScratchUse::gemm_rows, rows * pitch));
  const char* a = static_cast<const char*>(call_.a);
  parallel_for(pool, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t from = r / call_.m * call_.a_batch_stride + r % call_.m * call_.a_row_stride;
      copy_row(a + from * from_element, out + r * pitch);
    }
  });
  data_ = out;
  row_bytes_ = pitch;
  batch_bytes_ = call_.m * row_bytes_;
}

std::vector<int32_t> PackedRowsOfA::sums() const {
  std::vector<int32_t> out(static_cast<size_t>(call_.batch * call_.m));
  const bool is_signed = call_.type == GemmType::s8s8;
  const int flip = flips_ ? kSign : 0;
  for (int64_t r = 0; r < call_.batch * call_.m; ++r) {
    const char* row = address(r / call_.m, r % call_.m, 0);
    int32_t sum = 0;
    for (int64_t i = 0; i < call_.k; ++i) {
      sum += is_signed ? static_cast<int8_t>(row[i] ^ flip) : static_cast<uint8_t>(row[i]);
    }
    out[static_cast<size_t>(r)] = sum;
  }
  return out;
}

void add_row(const float* from, int64_t count, bool integers, float* to) {
  if (!integers) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
    return;
  }
  const auto* x = reinterpret_cast<const uint32_t*>(from);
  auto* sums = reinterpret_cast<uint32_t*>(to);
  for (int64_t i = 0; i < count; ++i) sums[i] += x[i];
}

}  // namespace lathe::cpu
