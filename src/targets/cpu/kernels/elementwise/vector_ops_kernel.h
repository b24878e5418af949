// SPDX-License-Identifier: MIT
// Body of vector_ops_*.cpp.
#pragma once

#include "targets/cpu/kernels/elementwise/activation_kernel.h"
#include "targets/cpu/kernels/elementwise/vector_ops_table.h"

namespace lathe::cpu {
namespace {

void activate_array(Activation f, float a, float b, const float* x, float* y, int64_t count) {
  int64_t i = 0;
  if (x == y) {
    activate_stored(f, a, b, y, count / kLanes);
    i = count / kLanes * kLanes;
  }
  constexpr int kStep = 4;
  for (; i + kStep * kLanes <= count; i += kStep * kLanes) {
    F32 v[kStep];
    for (int s = 0; s < kStep; ++s) v[s] = load(x + i + s * kLanes);
    activate(f, a, b, v);
    for (int s = 0; s < kStep; ++s) store(y + i + s * kLanes, v[s]);
  }
  for (; i < count; i += kLanes) {
    const Mask mask = mask_first(count - i < kLanes ? count - i : kLanes);
    F32 v[1] = {load(x + i, mask)};
    activate(f, a, b, v);
    store(y + i, v[0], mask);
  }
}

template <class Float16>
void narrow_array(const float* x, uint16_t* y, int64_t count) {
  auto* to = reinterpret_cast<Float16*>(y);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_f32(to + i, load(x + i));
  if (i < count) {
    const Mask mask = mask_first(count - i);
    store_f32(to + i, load(x + i, mask), mask);
  }
}

template <class Float16>
void widen_array(const uint16_t* x, float* y, int64_t count) {
  const auto* from = reinterpret_cast<const Float16*>(x);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, load_f32(from + i));
  if (i < count) {
    const Mask mask = mask_first(count - i);
    store(y + i, load_f32(from + i, mask), mask);
  }
}

constexpr VectorOps kVectorOps{activate_array, narrow_array<Bf16>, narrow_array<F16>,
                               widen_array<Bf16>, widen_array<F16>};

}  // namespace
}  // namespace lathe::cpu
