// SPDX-License-Identifier: MIT
// Small-K GEMM: a tile's epilogue overlaps the next tile's FMAs. Tiles are small enough that two
// fit the registers; setup runs once per column block. Results are int8 for integer accumulators,
// otherwise A's type, bit-identical to epilogue_registers.h.
#pragma once

#include "targets/cpu/kernels/gemm/brgemm_pipelined.h"
#include "targets/cpu/kernels/gemm/brgemm_tile.h"
#include "targets/cpu/kernels/gemm/epilogue_simple_kernel.h"

namespace lathe::cpu {
namespace {

// Activation fused before the rounding.
enum class FusedActivation : uint8_t { none, relu, hard_swish, silu };

// Activations long enough that one-vector tiles gain from the overlap. Shorter ones are overlapped
// by out-of-order execution.
template <FusedActivation kActivation>
constexpr bool kIsLong =
    kActivation == FusedActivation::hard_swish || kActivation == FusedActivation::silu;

// Epilogue values per column; neutral values where the epilogue has none.
template <int kVectors>
struct PipelinedColumns {
  alignas(64) float scale[kVectors * kLanes];
  alignas(64) float bias[kVectors * kLanes];
  alignas(64) int32_t add[kVectors * kLanes];
};

template <class P, int kVectors, FusedActivation kActivation, bool kBlocks>
struct PipelinedGemm {
  static constexpr int kRows = kPipelinedTileRows<P, kVectors>;
  static constexpr bool kInt8 = P::kGroup == 4;
  static constexpr bool kBf16 = P::kGroup == 2;
  static constexpr int kSize = 4 / P::kGroup;  // bytes of a result
  // The epilogue runs on quads of vectors; three-vector tiles use a row.
  static constexpr int kQuad = kVectors == 3 ? 3 : 4;
  static constexpr int kQuads = kRows * kVectors / kQuad;
  // Only GEMMs after a depthwise convolution: the prefetch slows others by up to 7 %.
  static constexpr bool kPrefetches =
      P::kGroup == 1 && kActivation == FusedActivation::none && !kBlocks;
  using Sum = typename P::Sum;
  using Sums = Sum[kRows][kVectors];

  const SimpleEpilogue& e;
  PipelinedColumns<kVectors> columns{};
  const char* b[kVectors] = {};
  int64_t a_stride = 0, groups = 0, out_stride = 0;
  int64_t tiles_per_output_row = 0, padding_bytes = 0;  // bytes of the padding rows
  // Byte offset of each group of k in a row; with one block the groups are contiguous. For groups
  // of two, kHalf marks those with only the first element.
  static constexpr int64_t kHalf = 1;
  int64_t offsets[kBlocks ? kPipelinedGroups : 1];
  int64_t a_prefetch_bytes = 0;  // bytes of A prefetched per quad if rows are contiguous
  // Memory read after the call and bytes prefetched per group of k. The rate is even, because
  // prefetches beyond the miss buffers are dropped.
  const char* prefetch_data = nullptr;
  int64_t prefetch_rate = 0;
  Mask last{};  // used lanes of the last vector
  bool small = false;
  // Checking each result before rounding costs too much beside the FMAs. One check of the sum of
  // all results finds any NaN. Accumulators are never denormal; neither is their sum with a bias
  // that is 0 or large.
  static constexpr bool kMayTrust =
      kBf16 && !kBlocks &&
      kActivation == (kVectors == 1 ? FusedActivation::none : FusedActivation::relu) &&
      (kVectors == 1 || kVectors == 4);
  bool no_denormals = false;
  bool is_signed = false;
  int zero = 0;
  F32 high{};

  // Row and vector of element i of a quad.
  static constexpr int row_of(int quad, int i) { return (quad * kQuad + i) / kVectors; }
  static constexpr int vector_of(int i) { return i % kVectors; }
  Mask mask_of(int i) const { return vector_of(i) == kVectors - 1 ? last : mask_first(kLanes); }

  PipelinedGemm(const BrgemmCall& call, int64_t row, int64_t column)
      : e(*call.epilogue->simple),
        a_stride(call.a_row_stride),
        groups(groups_of_block<P>(call) * call.block_count),
        out_stride(call.out_stride),
        last(columns_mask(call, column + (kVectors - 1) * kLanes)),
        small(e.scale != nullptr && !e.requantises),
        no_denormals(e.residual == nullptr),
        is_signed(e.out == ElementType::i8),
        zero(static_cast<int>(e.out_zero)),
        high(set1(static_cast<float>((is_signed ? 127 : 255) - zero))) {
    const int64_t block_groups = groups_of_block<P>(call);
    for (int64_t i = 0, at = 0; kBlocks && i < call.block_count; ++i) {
      const int64_t offset =
          static_cast<const char*>(call.blocks[i].a) - static_cast<const char*>(call.blocks[0].a);
      for (int64_t g = 0; g < block_groups; ++g) offsets[at++] = offset + g * 4;
      if (call.k % P::kGroup != 0) offsets[at - 1] |= kHalf;
    }
    if (call.output_row_pitch != 0) {
      tiles_per_output_row = call.output_row_width / kRows;
      padding_bytes = (call.output_row_pitch - call.output_row_width) * a_stride;
    }
    // The hardware prefetcher covers shorter rows.
    const bool is_contiguous = a_stride >= 64 && a_stride <= call.k * 4 / P::kGroup;
    if (call.a_is_cold && column == 0 && is_contiguous)
      a_prefetch_bytes = kRows * a_stride / kQuads;
    prefetch_data = static_cast<const char*>(call.blocks[0].a);
    if (kPrefetches && call.prefetch_bytes > 0 && column == 0) {
      const int64_t whole = call.rows / kRows * groups, steps = whole > 0 ? whole : 1;
      prefetch_rate = (call.prefetch_bytes + steps - 1) / steps;
      prefetch_data =
          static_cast<const char*>(call.prefetch_data) + row / kRows * groups * prefetch_rate;
    }
    for (int v = 0; v < kVectors; ++v) {
      const int64_t vector = column / kLanes + v, c = call.column + column + v * kLanes;
      b[v] = static_cast<const char*>(call.blocks[0].b) +
             vector / kPanelVectors * call.b_panel_stride + vector % kPanelVectors * kLanes * 4;
      const Mask m = mask_of(v);
      const F32 scale = e.scale == nullptr ? set1(1.0F) : load(e.scale + c, m);
      const F32 bias = e.bias == nullptr ? set1(-0.0F) : load(e.bias + c, m);
      // Same condition as RegisterTile::stays_small.
      small = small && all(less_equal(abs(scale), set1(0.25F))) &&
              all(less_equal(abs(bias), set1(0x1p29F)));
      if constexpr (kMayTrust) {
        const F32 size = select(equal(bias, zero_f32()), set1(1.0F), abs(bias));
        no_denormals = no_denormals && all(less_equal(set1(0x1p-102F), size));
      }
      store(columns.scale + v * kLanes, scale);
      store(columns.bias + v * kLanes, bias);
      store(columns.add + v * kLanes,
            e.column_compensation == nullptr ? zero_i32() : load(e.column_compensation + c, m));
    }
  }

  inline __attribute__((always_inline)) void begin(Sums& sums) const {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Sum first = P::zero();
      if constexpr (kInt8) first = load(columns.add + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][v] = first;
    }
  }

  template <class F>
  inline __attribute__((always_inline)) void accumulate(Sums& sums, const char* row, int64_t g,
                                                        F&& broadcast) const {
    if constexpr (kVectors == 1 && P::kSwaps) {
      // A broadcast used as the last operand folds into the FMA. A separate load and an FMA take
      // 1.4 cycles on Zen 4 if there are as many loads as FMAs.
      const auto y = P::load_b(b[0] + g * kGroupBytes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[r][0] = P::dot(sums[r][0], y, broadcast(row + r * a_stride));
      }
      return;
    }
    decltype(broadcast(row)) x[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) x[r] = broadcast(row + r * a_stride);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto y = P::load_b(b[v] + g * kGroupBytes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][v] = P::dot(sums[r][v], x[r], y);
    }
  }

  inline __attribute__((always_inline)) void multiply(Sums& sums, const char* a, int64_t first,
                                                      int64_t end, const char*& prefetch_at) const {
    if constexpr (kPrefetches) {
      for (; prefetch_rate != 0 && first < end; ++first, prefetch_at += prefetch_rate) {
        __builtin_prefetch(prefetch_at, 0, 2);
        accumulate(sums, a + first * 4, first, [](const char* p) { return P::broadcast(p); });
      }
    }
    for (int64_t g = first; g < end; ++g) {
      const char* row = a + (kBlocks ? offsets[g] : g * 4);
      if constexpr (kBlocks && kBf16) {
        if ((offsets[g] & kHalf) != 0) {
          accumulate(sums, row - kHalf, g, [](const char* p) { return P::broadcast_one(p); });
          continue;
        }
      }
      accumulate(sums, row, g, [](const char* p) { return P::broadcast(p); });
    }
  }

  template <class T>
  inline __attribute__((always_inline)) void add_residual(int quad, const char* residual,
                                                          F32 (&x)[4]) const {
    const T* p = reinterpret_cast<const T*>(residual);
    const auto element = [&](int i) __attribute__((always_inline)) {
      const int64_t at = row_of(quad, i) * e.residual_stride + vector_of(i) * kLanes;
      return load_f32(p + at, mask_of(i));
    };
    if constexpr (kInt8) {
      if (e.requantises) return requantise<kQuad>(e.requantisation, x, element);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kQuad; ++i) x[i] = x[i] + element(i);
  }

  inline __attribute__((always_inline)) void store_int8(F32 (&x)[4], char* to) const {
    I32 n[4];
#pragma GCC unroll 4
    for (int i = 0; i < kQuad; ++i) {
      if (!small) x[i] = min(high, x[i]);
      n[i] = to_i32(x[i]);
    }
    if constexpr (kQuad == 3) n[3] = n[2];
    I32 low = pack_int16(n[0], n[1]), up = pack_int16(n[2], n[3]);
    if (zero != 0) {
      low = add_to_int16(low, zero);
      up = add_to_int16(up, zero);
    }
    const __m512i mixed =
        is_signed ? _mm512_packs_epi16(low.v, up.v) : _mm512_packus_epi16(low.v, up.v);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_permutexvar_epi32(order, mixed);
    if constexpr (kVectors >= 3) {
      constexpr int kBefore = (kVectors - 1) * kLanes;
      const __mmask64 mask = (uint64_t{1} << kBefore) - 1 | static_cast<uint64_t>(last.m)
                                                                << kBefore;
      _mm512_mask_storeu_epi8(to, mask, bytes);
    } else if constexpr (kVectors == 2) {
      _mm256_mask_storeu_epi8(to, two_vector_mask(last), _mm512_castsi512_si256(bytes));
      _mm256_mask_storeu_epi8(to + out_stride, two_vector_mask(last),
                              _mm512_extracti64x4_epi64(bytes, 1));
    } else {
      _mm_mask_storeu_epi8(to, last.m, _mm512_castsi512_si128(bytes));
      _mm_mask_storeu_epi8(to + out_stride, last.m, _mm512_extracti32x4_epi32(bytes, 1));
      _mm_mask_storeu_epi8(to + 2 * out_stride, last.m, _mm512_extracti32x4_epi32(bytes, 2));
      _mm_mask_storeu_epi8(to + 3 * out_stride, last.m, _mm512_extracti32x4_epi32(bytes, 3));
    }
  }

  template <bool kTrusts>
  inline __attribute__((always_inline)) void store_bf16(const F32 (&x)[4], char* to) const {
    const auto address = [&](int i) __attribute__((always_inline)) {
      return reinterpret_cast<Bf16*>(to + row_of(0, i) * out_stride) + vector_of(i) * kLanes;
    };
    unsigned special = 0;
#pragma GCC unroll 4
    for (int i = 0; i < kQuad; ++i) special |= kTrusts ? 0 : is_special(x[i]);
    if (__builtin_expect(special != 0, 0)) {
#pragma GCC unroll 4
      for (int i = 0; i < kQuad; ++i) store_f32(address(i), x[i], mask_of(i));
      return;
    }
    if constexpr (kVectors == 2) {
      store_two(address(0), x[0], x[1], last);
    } else {
      store_two(address(0), x[0], x[1]);
    }
    if constexpr (kVectors == 1) {
      store_two(address(2), x[2], x[3]);
    } else if constexpr (kVectors == 3) {
      store_one(address(2), x[2], last);
    } else {
      store_two(address(2), x[2], x[3], last);
    }
  }

  inline __attribute__((always_inline)) void store_floats(const F32 (&x)[4], char* to) const {
#pragma GCC unroll 4
    for (int i = 0; i < kQuad; ++i) {
      auto* p = reinterpret_cast<float*>(to + row_of(0, i) * out_stride) + vector_of(i) * kLanes;
      store(p, x[i], mask_of(i));
    }
  }

  // Applies the epilogue to a quad; the tile starts at `out`.
  template <int kAt, bool kTrusts>
  inline __attribute__((always_inline)) void apply_quad(const Sums& sums, char* out,
                                                        const char* residual, F32& seen) const {
    F32 x[4];
#pragma GCC unroll 4
    for (int i = 0; i < kQuad; ++i) {
      const int v = vector_of(i) * kLanes;
      if constexpr (kInt8) {
        x[i] = to_f32(sums[row_of(kAt, i)][vector_of(i)]) * load(columns.scale + v);
      } else {
        x[i] = sums[row_of(kAt, i)][vector_of(i)];
      }
      x[i] = x[i] + load(columns.bias + v);
    }
    if constexpr (kTrusts) {
      seen = seen + ((x[0] + x[1]) + (x[2] + x[3]));
    } else if (residual != nullptr) {
      if constexpr (kInt8) {
        is_signed ? add_residual<int8_t>(kAt, residual, x)
                  : add_residual<uint8_t>(kAt, residual, x);
      } else if constexpr (kBf16) {
        add_residual<Bf16>(kAt, residual, x);
      } else {
        add_residual<float>(kAt, residual, x);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kQuad; ++i) {
      if constexpr (kActivation == FusedActivation::relu) x[i] = relu(x[i]);
      if constexpr (kActivation == FusedActivation::hard_swish) x[i] = hard_swish(x[i]);
    }
    if constexpr (kActivation == FusedActivation::silu) {
      F32 y[kQuad];
#pragma GCC unroll 4
      for (int i = 0; i < kQuad; ++i) y[i] = x[i];
      sigmoid_each(y);
#pragma GCC unroll 4
      for (int i = 0; i < kQuad; ++i) x[i] = x[i] * y[i];
    }
    char* to = out + row_of(kAt, 0) * out_stride;
    if constexpr (kInt8) {
      store_int8(x, to);
    } else if constexpr (kBf16) {
      store_bf16<kTrusts>(x, to);
    } else {
      store_floats(x, to);
    }
  }

  // Accumulates a tile, interleaved with the epilogue of the previous one.
  template <int kAt, bool kTrusts>
  inline __attribute__((always_inline)) void multiply_and_apply(Sums& sums, const char* a,
                                                                const Sums& done, char* out,
                                                                const char* residual,
                                                                const char*& prefetch_at,
                                                                F32& seen) const {
    if constexpr (kAt < kQuads) {
      const char* below = a + 2 * kRows * a_stride + kAt * a_prefetch_bytes;
      for (int64_t at = 0; at < a_prefetch_bytes; at += 64) __builtin_prefetch(below + at);
      multiply(sums, a, groups * kAt / kQuads, groups * (kAt + 1) / kQuads, prefetch_at);
      apply_quad<kAt, kTrusts>(done, out, residual, seen);
      multiply_and_apply<kAt + 1, kTrusts>(sums, a, done, out, residual, prefetch_at, seen);
    }
  }
  template <int kAt, bool kTrusts>
  inline __attribute__((always_inline)) void apply_all(const Sums& done, char* out,
                                                       const char* residual, F32& seen) const {
    if constexpr (kAt < kQuads) {
      apply_quad<kAt, kTrusts>(done, out, residual, seen);
      apply_all<kAt + 1, kTrusts>(done, out, residual, seen);
    }
  }

  // Prefetches the end of each row of the next tile of C: a store miss stalls later stores. Rows
  // are mostly contiguous, so one cache line per row suffices.
  inline __attribute__((always_inline)) void prefetch_stores(const char* out) const {
    constexpr int kWidth = kVectors * kLanes * kSize;
    constexpr int kStep = kWidth == 16 ? 4 : 1;
#pragma GCC unroll 8
    for (int r = kStep - 1; r < kRows; r += kStep) {
      for (int at = kWidth - 1; at >= 0; at -= 64) {
        __builtin_prefetch(out + r * out_stride + at, 1);
      }
    }
  }

  // Advances to the next tile's rows; `left` tiles remain in the output row.
  inline __attribute__((always_inline)) void advance(const char*& a, int64_t& left) const {
    a += kRows * a_stride;
    if constexpr (kBlocks) {
      if (--left != 0) return;
      a += padding_bytes;
      left = tiles_per_output_row;
    }
  }

  // Runs at least one tile. Returns false if unchecked results include a NaN or infinities of both
  // signs.
  template <bool kTrusts>
  inline __attribute__((always_inline)) bool run(const char* a, int64_t tiles, char* out,
                                                 const char* residual) const {
    F32 seen = zero_f32();
    const int64_t residual_step = residual == nullptr ? 0 : kRows * e.residual_stride * kSize;
    const char* prefetch_at = prefetch_data;
    int64_t left = tiles_per_output_row;
    if constexpr (kVectors == 1 && P::kSwaps && !kIsLong<kActivation>) {
      for (int64_t t = 0; t < tiles; ++t) {
        Sums sums;
        begin(sums);
        multiply(sums, a, 0, groups, prefetch_at);
        apply_all<0, kTrusts>(sums, out, residual, seen);
        advance(a, left);
        out += kRows * out_stride;
        residual += residual_step;
      }
      return !kTrusts || is_nan(seen).m == 0;
    }
    Sums sums, done;
    begin(sums);
    multiply(sums, a, 0, groups, prefetch_at);
    for (int64_t t = 1; t < tiles; ++t) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) done[r][v] = sums[r][v];
      }
      advance(a, left);
      begin(sums);
      prefetch_stores(out + kRows * out_stride);
      multiply_and_apply<0, kTrusts>(sums, a, done, out, residual, prefetch_at, seen);
      out += kRows * out_stride;
      residual += residual_step;
    }
    apply_all<0, kTrusts>(sums, out, residual, seen);
    return !kTrusts || is_nan(seen).m == 0;
  }
};

// Computes whole tiles of kVectors vectors of columns. Returns the number of rows computed.
template <class P, int kVectors, FusedActivation kActivation, bool kBlocks>
__attribute__((noinline)) int64_t pipelined_columns(const BrgemmCall& call, int64_t row,
                                                    int64_t rows, int64_t column) {
  const PipelinedGemm<P, kVectors, kActivation, kBlocks> gemm(call, row, column);
  const SimpleEpilogue& e = gemm.e;
  const int64_t size = out_size(e.out), tiles = rows / gemm.kRows;
  if (tiles == 0) return 0;
  const char* residual = nullptr;
  if (e.residual != nullptr) {
    residual = static_cast<const char*>(e.residual) +
               ((call.row + row) * e.residual_stride + call.column + column) * size;
  }
  const char* a = static_cast<const char*>(call.blocks[0].a) + row * call.a_row_stride;
  char* out = static_cast<char*>(call.out) + row * call.out_stride + column * size;
  bool is_done = false;
  if constexpr (gemm.kMayTrust) {
    is_done = gemm.no_denormals && gemm.template run<true>(a, tiles, out, nullptr);
  }
  if (!is_done) gemm.template run<false>(a, tiles, out, residual);
  return tiles * gemm.kRows;
}

template <class P, FusedActivation kActivation>
int64_t pipelined_rows(const BrgemmCall& call, int64_t row, int64_t rows, int64_t column,
                       int vectors) {
  const auto columns = [&]<int kVectors>() {
    constexpr bool kOnlyBlocks = kVectors == 1 && P::kSwaps && kIsLong<kActivation>;
    if constexpr (kVectors <= kBlockVectors) {
      if (kOnlyBlocks || call.block_count > 1 || call.output_row_pitch != 0 ||
          call.k % P::kGroup != 0) {
        return pipelined_columns<P, kVectors, kActivation, true>(call, row, rows, column);
      }
    }
    if constexpr (!kOnlyBlocks)
      return pipelined_columns<P, kVectors, kActivation, false>(call, row, rows, column);
  };
  switch (vectors) {
    case 4:
      return columns.template operator()<4>();
    case 3:
      return columns.template operator()<3>();
    case 2:
      return columns.template operator()<2>();
    default:
      return columns.template operator()<1>();
  }
}
template <class P>
inline int64_t pipelined_any(const BrgemmCall& call, int64_t row, int64_t rows, int64_t column,
                             int vectors) {
  const SimpleEpilogue& e = *call.epilogue->simple;
  // u8 saturation at 0 already implements ReLU if the zero point is 0.
  const bool cuts = e.out == ElementType::u8 && e.out_zero == 0;
  if (!e.has_activation || (e.activation == Activation::relu && cuts)) {
    return pipelined_rows<P, FusedActivation::none>(call, row, rows, column, vectors);
  }
  switch (e.activation) {
    case Activation::relu:
      return pipelined_rows<P, FusedActivation::relu>(call, row, rows, column, vectors);
    case Activation::hard_swish:
      return pipelined_rows<P, FusedActivation::hard_swish>(call, row, rows, column, vectors);
    default:
      return pipelined_rows<P, FusedActivation::silu>(call, row, rows, column, vectors);
  }
}

}  // namespace
}  // namespace lathe::cpu
