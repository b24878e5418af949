// SPDX-License-Identifier: MIT
// Body of epilogue_*.cpp: four rows of two vectors pass through all steps in registers.
#pragma once

#include "targets/cpu/kernels/elementwise/activation_kernel.h"
#include "targets/cpu/kernels/gemm/epilogue_simple_kernel.h"

namespace lathe::cpu {
namespace {

constexpr int kGroupRows = 4;
constexpr int kGroupVectors = 2;
constexpr int kGroup = kGroupRows * kGroupVectors;

// The part of a tile in registers. Rows beyond the tile repeat its last row and are not stored.
struct Place {
  int64_t row[kGroupRows];  // in the tile
  int64_t column;           // in the tile
  Mask mask[kGroupVectors];
  int rows;
};

template <class F>
inline void each(F&& f) {
#pragma GCC unroll 8
  for (int i = 0; i < kGroup; ++i) f(i, i / kGroupVectors, i % kGroupVectors);
}

template <class T>
inline float scalar(const void* data, int64_t index) {
  const T* p = static_cast<const T*>(data) + index;
  if constexpr (sizeof(T) == 2) {
    T padded[kLanes] = {*p};
    return lane0(load_f32(padded));
  } else {
    return static_cast<float>(*p);
  }
}

template <class T>
inline void load_elements(const Operand& operand, const EpilogueTile& tile, const Place& place,
                          F32 (&y)[kGroup]) {
  const T* data = static_cast<const T*>(operand.data);
  const int64_t column = tile.column + place.column;
  const int64_t stride = operand.column_stride;
  each([&](int i, int r, int v) {
    const int64_t base = (tile.row + place.row[r]) * operand.row_stride + column * stride;
    if (stride == 1) {
      y[i] = load_f32(data + base + v * kLanes, place.mask[v]);
    } else if (stride == 0) {
      y[i] = set1(scalar<T>(data, base));
    } else {
      float lanes[kLanes] = {};
      for (int64_t c = 0; c < kLanes && place.column + v * kLanes + c < tile.columns; ++c) {
        lanes[c] = scalar<T>(data, base + (v * kLanes + c) * stride);
      }
      y[i] = load(lanes);
    }
  });
}

void load_operand(const Operand& operand, const EpilogueTile& tile, const Place& place,
                  F32 (&y)[kGroup]) {
  if (operand.data == nullptr) {
    each([&](int i, int, int) { y[i] = set1(operand.scale); });
    return;
  }
  switch (operand.type) {
    case ElementType::bf16:
      load_elements<Bf16>(operand, tile, place, y);
      break;
    case ElementType::f16:
      load_elements<F16>(operand, tile, place, y);
      break;
    case ElementType::i32:
      load_elements<int32_t>(operand, tile, place, y);
      break;
    case ElementType::i8:
      load_elements<int8_t>(operand, tile, place, y);
      break;
    case ElementType::u8:
      load_elements<uint8_t>(operand, tile, place, y);
      break;
    default:
      load_elements<float>(operand, tile, place, y);
  }
  if (operand.zero != 0) each([&](int i, int, int) { y[i] = y[i] - set1(operand.zero); });
  if (operand.scale != 1) each([&](int i, int, int) { y[i] = y[i] * set1(operand.scale); });
}

inline void apply(const EpilogueStep& step, const EpilogueTile& tile, const Place& place,
                  F32 (&x)[kGroup]) {
  using Kind = EpilogueStep::Kind;
  if (step.kind == Kind::activate) return activate(step.activation, step.a, step.b, x);
  if (step.kind == Kind::round) {
    const F32 low = set1(step.a), high = set1(step.b);
    return each([&](int i, int, int) { x[i] = round_even(min(max(x[i], low), high)); });
  }
  F32 y[kGroup];
  load_operand(step.operand, tile, place, y);
  const auto combine = [&](auto f) { each([&](int i, int, int) { x[i] = f(x[i], y[i]); }); };
  switch (step.kind) {
    case Kind::add:
      return combine([](F32 p, F32 q) { return p + q; });
    case Kind::sub:
      return combine([](F32 p, F32 q) { return p - q; });
    case Kind::sub_reversed:
      return combine([](F32 p, F32 q) { return q - p; });
    case Kind::mul:
      return combine([](F32 p, F32 q) { return p * q; });
    case Kind::div:
      return combine([](F32 p, F32 q) { return p / q; });
    case Kind::div_reversed:
      return combine([](F32 p, F32 q) { return q / p; });
    case Kind::min:
      return combine([](F32 p, F32 q) { return select(is_nan(q), q, min(q, p)); });
    case Kind::max:
      return combine([](F32 p, F32 q) { return select(is_nan(q), q, max(q, p)); });
    case Kind::activate:
    case Kind::round:
      return;
  }
}

inline void correct(const Epilogue& epilogue, const EpilogueTile& tile, const Place& place,
                    I32 (&x)[kGroup]) {
  const int64_t column = tile.column + place.column;
  if (epilogue.column_compensation != nullptr) {
    each([&](int i, int, int v) {
      x[i] = x[i] + load(epilogue.column_compensation + column + v * kLanes, place.mask[v]);
    });
  }
  for (const OuterCompensation& outer : epilogue.outer) {
    each([&](int i, int r, int v) {
      const I32 row = set1(outer.row == nullptr ? 1 : outer.row[tile.row + place.row[r]]);
      const int32_t* p = outer.column == nullptr ? nullptr : outer.column + column + v * kLanes;
      x[i] = x[i] - row * (p == nullptr ? set1(1) : load(p, place.mask[v]));
    });
  }
}

template <class F>
inline void store_group(const EpilogueTile& tile, const Place& place, int64_t element_size, F&& f) {
  char* out = static_cast<char*>(tile.out) + place.column * element_size;
  each([&](int i, int r, int v) {
    if (r >= place.rows) return;
    f(i, out + place.row[r] * tile.out_stride + v * kLanes * element_size, place.mask[v]);
  });
}

void store_floats(const Epilogue& epilogue, const EpilogueTile& tile, const Place& place,
                  const F32 (&x)[kGroup]) {
  if (epilogue.out == ElementType::bf16) {
    store_group(tile, place, 2, [&](int i, char* p, Mask mask) {
      store_f32(reinterpret_cast<Bf16*>(p), x[i], mask);
    });
  } else if (epilogue.out == ElementType::f16) {
    store_group(tile, place, 2, [&](int i, char* p, Mask mask) {
      store_f32(reinterpret_cast<F16*>(p), x[i], mask);
    });
  } else {
    store_group(tile, place, 4,
                [&](int i, char* p, Mask mask) { store(reinterpret_cast<float*>(p), x[i], mask); });
  }
}

void store_integers(const Epilogue& epilogue, const EpilogueTile& tile, const Place& place,
                    const F32 (&x)[kGroup]) {
  F32 zero[kGroup];
  load_operand(epilogue.out_zero, tile, place, zero);
  I32 y[kGroup];
  constexpr float kBeyond = 0x1p30F;  // adding any 8-bit zero point stays out of range
  const bool wide = epilogue.out == ElementType::i32;
  const float low = wide ? -0x1p31F : -kBeyond, high = wide ? 0x1.fffffep30F : kBeyond;
  each([&](int i, int, int) { y[i] = saturate(x[i], low, high) + to_i32(zero[i]); });
  if (wide) {
    store_group(tile, place, 4, [&](int i, char* p, Mask mask) {
      store(reinterpret_cast<int32_t*>(p), y[i], mask);
    });
  } else if (epilogue.out == ElementType::i8) {
    store_group(tile, place, 1, [&](int i, char* p, Mask mask) {
      store_i32(reinterpret_cast<int8_t*>(p), max(set1(-128), min(set1(127), y[i])), mask);
    });
  } else {
    store_group(tile, place, 1, [&](int i, char* p, Mask mask) {
      store_i32(reinterpret_cast<uint8_t*>(p), max(set1(0), min(set1(255), y[i])), mask);
    });
  }
}

inline void finish_group(const Epilogue& epilogue, const EpilogueTile& tile, const Place& place) {
  F32 x[kGroup];
  if (tile.integer_sums) {
    I32 sums[kGroup];
    each([&](int i, int r, int v) {
      const int32_t* p = static_cast<const int32_t*>(tile.sums) + place.row[r] * tile.sums_stride;
      sums[i] = load(p + place.column + v * kLanes, place.mask[v]);
    });
    correct(epilogue, tile, place, sums);
    const Operand& zero = epilogue.out_zero;
    if (epilogue.out == ElementType::i32 && epilogue.steps.empty() && zero.data == nullptr &&
        zero.scale == 0) {
      store_group(tile, place, 4, [&](int i, char* p, Mask mask) {
        store(reinterpret_cast<int32_t*>(p), sums[i], mask);
      });
      return;
    }
    each([&](int i, int, int) { x[i] = to_f32(sums[i]); });
  } else {
    each([&](int i, int r, int v) {
      const float* p = static_cast<const float*>(tile.sums) + place.row[r] * tile.sums_stride;
      x[i] = load(p + place.column + v * kLanes, place.mask[v]);
    });
  }
  const EpilogueStep* steps = epilogue.steps.data();
  for (size_t s = 0; s < epilogue.steps.size(); ++s) apply(steps[s], tile, place, x);
  switch (epilogue.out) {
    case ElementType::i8:
    case ElementType::u8:
    case ElementType::i32:
      return store_integers(epilogue, tile, place, x);
    default:
      return store_floats(epilogue, tile, place, x);
  }
}

void finish(const Epilogue& epilogue, const EpilogueTile& tile) {
  if (epilogue.simple != nullptr) return finish_simple_tile(*epilogue.simple, tile);
  if (epilogue.code != nullptr) return epilogue.code->run(*epilogue.code, epilogue, tile);
  for (int64_t column = 0; column < tile.columns; column += kGroupVectors * kLanes) {
    Place place;
    place.column = column;
    for (int v = 0; v < kGroupVectors; ++v) {
      const int64_t left = tile.columns - column - v * kLanes;
      place.mask[v] = mask_first(left < 0 ? 0 : left < kLanes ? left : kLanes);
    }
    for (int64_t row = 0; row < tile.rows; row += kGroupRows) {
      place.rows = static_cast<int>(tile.rows - row < kGroupRows ? tile.rows - row : kGroupRows);
      for (int r = 0; r < kGroupRows; ++r) {
        place.row[r] = row + (r < place.rows ? r : place.rows - 1);
      }
      finish_group(epilogue, tile, place);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
