// SPDX-License-Identifier: MIT
// Products on AMX tiles: 32 rows by a panel, in four tiles of sums. Reads the panels of the
// AVX-512 units: a tile of B is 16 of their groups of k, 64 bytes of each.
#include "targets/cpu/kernels/brgemm_table.h"
#include "targets/cpu/kernels/epilogue_simple.h"
#include "targets/cpu/kernels/epilogue_table.h"
#include "targets/cpu/kernels/simd.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kRowTile = 2 * kTileRows;
constexpr int64_t kTileGroups = 16;
constexpr int64_t kTileBytes = 64;  // of a row
constexpr int64_t kPanelColumns = 2 * kLanes;
constexpr int64_t kGroupBytes = kPanelColumns * 4;

// Tiles 0 to 3: sums, two of columns in each of two of rows. 4, 5: A. 6, 7: B.
struct TileBf16 {
  static constexpr int kGroup = 2;
  static void dot_two_rows() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  static void dot_one_row() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
  }
};
struct TileU8S8 {
  static constexpr int kGroup = 4;
  static void dot_two_rows() {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  static void dot_one_row() {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
  }
};
struct TileS8S8 {
  static constexpr int kGroup = 4;
  static void dot_two_rows() {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  static void dot_one_row() {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
  }
};

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

void configure(int64_t rows) {
  TileConfig config;
  const auto first = static_cast<uint8_t>(rows < kTileRows ? rows : kTileRows);
  const auto second = static_cast<uint8_t>(rows - first);
  const uint8_t tile_rows[8] = {first, first,  second,      second,
                                first, second, kTileGroups, kTileGroups};
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = tile_rows[i];
    config.row_bytes[i] = tile_rows[i] == 0 ? 0 : kTileBytes;
  }
  _tile_loadconfig(&config);
}

// Sums of a tile pair of rows by a panel, as they lie in memory.
struct alignas(64) Sums {
  int32_t numbers[kRowTile * kPanelColumns];
};
constexpr int64_t kSumsStride = kPanelColumns * 4;

// The end of K that fills no tile: zeros behind it, on both sides.
struct alignas(64) Tail {
  const char* of = nullptr;  // the part of B that it is a copy of
  alignas(64) char bytes[kTileGroups * kGroupBytes];
};

inline void copy_bytes(const char* from, int64_t bytes, char* to) {
  const __mmask64 mask = bytes >= 64 ? ~__mmask64{0} : (__mmask64{1} << bytes) - 1;
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(mask, from));
}

template <class P, bool kTwo>
inline void step(const char* a, int64_t stride, const char* b) {
  _tile_loadd(6, b, kGroupBytes);
  _tile_loadd(7, b + kTileBytes, kGroupBytes);
  _tile_loadd(4, a, stride);
  if constexpr (kTwo) {
    _tile_loadd(5, a + kTileRows * stride, stride);
    P::dot_two_rows();
  } else {
    P::dot_one_row();
  }
}

// `between` runs after each step: what the processor does beside the tiles. kAhead: the rows behind
// these are on their way to the second cache.
template <class P, bool kTwo, bool kAhead, class Between>
inline void accumulate(const BrgemmCall& call, int64_t row, int64_t rows, int64_t b_offset,
                       Tail& b_tail, Between&& between) {
  constexpr int64_t kTileNumbers = kTileGroups * P::kGroup;
  const int64_t stride = call.a_row_stride;
  const int64_t whole = call.k / kTileNumbers, rest = call.k % kTileNumbers;
  for (int64_t i = 0; i < call.block_count; ++i) {
    const char* a = static_cast<const char*>(call.blocks[i].a) + row * stride;
    const char* b = static_cast<const char*>(call.blocks[i].b) + b_offset;
    for (int64_t t = 0; t < whole; ++t) {
      step<P, kTwo>(a, stride, b);
      if constexpr (kAhead) {
        for (int64_t r = rows; r < rows + kRowTile; ++r) {
          _mm_prefetch(a + r * stride, _MM_HINT_T1);
        }
      }
      between();
      a += kTileBytes;
      b += kTileGroups * kGroupBytes;
    }
    if (rest == 0) continue;
    alignas(64) char a_tail[kRowTile * kTileBytes];
    for (int64_t r = 0; r < rows; ++r) {
      copy_bytes(a + r * stride, rest * 4 / P::kGroup, a_tail + r * kTileBytes);
    }
    const int64_t groups = (rest + P::kGroup - 1) / P::kGroup;
    for (int64_t g = 0; b_tail.of != b && g < kTileGroups; ++g) {
      for (int64_t half = 0; half < kGroupBytes; half += 64) {
        copy_bytes(b + g * kGroupBytes + half, g < groups ? 64 : 0,
                   b_tail.bytes + g * kGroupBytes + half);
      }
    }
    b_tail.of = b;
    step<P, kTwo>(a_tail, kTileBytes, b_tail.bytes);
    between();
  }
}

template <bool kTwo>
inline void load_sums(const char* sums, int64_t stride) {
  _tile_loadd(0, sums, stride);
  _tile_loadd(1, sums + kTileBytes, stride);
  if constexpr (kTwo) {
    _tile_loadd(2, sums + kTileRows * stride, stride);
    _tile_loadd(3, sums + kTileRows * stride + kTileBytes, stride);
  }
}
template <bool kTwo>
inline void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kTwo) {
    _tile_zero(2);
    _tile_zero(3);
  }
}
template <bool kTwo>
inline void store_tiles(char* sums, int64_t stride) {
  _tile_stored(0, sums, stride);
  _tile_stored(1, sums + kTileBytes, stride);
  if constexpr (kTwo) {
    _tile_stored(2, sums + kTileRows * stride, stride);
    _tile_stored(3, sums + kTileRows * stride + kTileBytes, stride);
  }
}

// A row of a panel's columns, of which `columns` count.
inline void copy_row(const int32_t* from, int64_t columns, int32_t* to) {
  for (int64_t c = 0; c < kPanelColumns; c += kLanes) {
    const int64_t left = columns - c;
    const Mask mask = mask_first(left < 0 ? 0 : left < kLanes ? left : kLanes);
    store(to + c, load(from + c, mask), mask);
  }
}

void start_sums(const BrgemmCall& call, int64_t row, int64_t rows, int64_t column, Sums& sums) {
  const int64_t columns = call.columns - column;
  for (int64_t r = 0; r < rows; ++r) {
    int32_t* to = sums.numbers + r * kPanelColumns;
    store(to, zero_i32());
    store(to + kLanes, zero_i32());
    copy_row(static_cast<const int32_t*>(call.start) + (row + r) * call.start_stride + column,
             columns, to);
  }
}

// Rows [row, row + rows) of the call.
template <class P>
void finish(const BrgemmCall& call, int64_t row, int64_t rows, int64_t column,
            const int32_t* numbers) {
  const int64_t columns =
      call.columns - column < kPanelColumns ? call.columns - column : kPanelColumns;
  char* out = static_cast<char*>(call.out) + row * call.out_stride;
  if (call.epilogue == nullptr) {
    for (int64_t r = 0; r < rows; ++r) {
      copy_row(numbers + r * kPanelColumns, columns,
               reinterpret_cast<int32_t*>(out + r * call.out_stride) + column);
    }
    return;
  }
  EpilogueTile tile;
  tile.sums = numbers;
  tile.integer_sums = P::kGroup == 4;
  tile.sums_stride = kPanelColumns;
  tile.rows = rows;
  tile.columns = columns;
  tile.row = call.row + row;
  tile.column = call.column + column;
  tile.out = out + column * out_size(call.epilogue->out);
  tile.out_stride = call.out_stride;
  finish_tile_avx512(*call.epilogue, tile);
}

// A call's tiles one after another. The sums of one are finished, a few rows at a time, between the
// steps of the next: vectors and tiles then work at once.
template <class P>
class Tiles {
 public:
  explicit Tiles(const BrgemmCall& call) : call_(call) {
    const int64_t numbers = kTileGroups * P::kGroup;
    steps_ = call.block_count * ((call.k + numbers - 1) / numbers);
  }

  template <bool kTwo>
  void run(int64_t row, int64_t rows, int64_t column) {
    char* memory = reinterpret_cast<char*>(sums_.numbers);
    if (call_.start == nullptr) {
      zero_sums<kTwo>();
    } else {
      finish_all();
      start_sums(call_, row, rows, column, sums_);
      load_sums<kTwo>(memory, kSumsStride);
    }
    const int64_t waiting = (rows_ - done_ + kSlice - 1) / kSlice;
    const int64_t some = steps_ == 0 ? 0 : (waiting + steps_ - 1) / steps_;
    if (call_.block_count == 1) fetch_results(row, rows, column);
    const int64_t b_offset = column / kPanelColumns * call_.b_panel_stride;
    const auto between = [&] {
      for (int64_t i = 0; i < some && done_ < rows_; ++i) finish_slice();
    };
    const bool first = call_.column + column == 0 && call_.block_count == 1;
    if (kTwo && first && row + 2 * kRowTile <= call_.rows) {
      accumulate<P, kTwo, true>(call_, row, rows, b_offset, b_tail_, between);
    } else {
      accumulate<P, kTwo, false>(call_, row, rows, b_offset, b_tail_, between);
    }
    finish_all();
    if (call_.epilogue == nullptr && column + kPanelColumns <= call_.columns) {
      char* out = static_cast<char*>(call_.out) + row * call_.out_stride + column * 4;
      store_tiles<kTwo>(out, call_.out_stride);
      return;
    }
    store_tiles<kTwo>(memory, kSumsStride);
    row_ = row;
    rows_ = rows;
    column_ = column;
    done_ = 0;
  }

  void finish_all() {
    while (done_ < rows_) finish_slice();
  }

 private:
  static constexpr int64_t kSlice = 8;  // rows: what an epilogue takes at once

  // The lines that will be written: storing would wait for each.
  void fetch_results(int64_t row, int64_t rows, int64_t column) const {
    const int64_t size = call_.epilogue == nullptr ? 4 : out_size(call_.epilogue->out);
    const char* out = static_cast<const char*>(call_.out) + column * size;
    for (int64_t r = row; r < row + rows; ++r) {
      for (int64_t at = 0; at < kPanelColumns * size; at += 64) {
        __builtin_prefetch(out + r * call_.out_stride + at, 1);
      }
    }
    const SimpleEpilogue* simple = call_.epilogue == nullptr ? nullptr : call_.epilogue->simple;
    if (simple == nullptr || simple->residual == nullptr) return;
    const int64_t element = out_size(simple->residual_type);
    const auto* residual = static_cast<const char*>(simple->residual) +
                           (call_.row * simple->residual_stride + call_.column + column) * element;
    for (int64_t r = row; r < row + rows; ++r) {
      const char* line = residual + r * simple->residual_stride * element;
      for (int64_t at = 0; at < kPanelColumns * element; at += 64) __builtin_prefetch(line + at);
    }
  }

  void finish_slice() {
    const int64_t rows = rows_ - done_ < kSlice ? rows_ - done_ : kSlice;
    finish<P>(call_, row_ + done_, rows, column_, sums_.numbers + done_ * kPanelColumns);
    done_ += rows;
  }

  const BrgemmCall& call_;
  int64_t steps_ = 0;
  Sums sums_;    // of the tile that waits; those of the next one are in registers
  Tail b_tail_;  // serves all rows of a column
  int64_t row_ = 0, rows_ = 0, column_ = 0, done_ = 0;
};

template <class P>
void run_tiles(const BrgemmCall& call) {
  const int64_t whole = call.rows / kRowTile * kRowTile, rest = call.rows - whole;
  Tiles<P> tiles(call);
  if (whole > 0) {
    configure(kRowTile);
    for (int64_t column = 0; column < call.columns; column += kPanelColumns) {
      for (int64_t row = 0; row < whole; row += kRowTile) {
        tiles.template run<true>(row, kRowTile, column);
      }
    }
  }
  if (rest > 0) {
    configure(rest);
    for (int64_t column = 0; column < call.columns; column += kPanelColumns) {
      if (rest > kTileRows) {
        tiles.template run<true>(whole, rest, column);
      } else {
        tiles.template run<false>(whole, rest, column);
      }
    }
  }
  tiles.finish_all();
  _tile_release();
}

template <class P>
void run(const BrgemmCall& call) {
  SimpleEpilogue simple;
  if (call.epilogue == nullptr || call.epilogue->simple != nullptr ||
      !simplify(*call.epilogue, simple)) {
    return run_tiles<P>(call);
  }
  Epilogue epilogue = *call.epilogue;
  epilogue.simple = &simple;
  BrgemmCall simplified = call;
  simplified.epilogue = &epilogue;
  run_tiles<P>(simplified);
}

template <class P>
constexpr BrgemmKernel kKernel{run<P>, kPanelColumns, P::kGroup, kRowTile, 0, true, false};

}  // namespace

const BrgemmKernel kBrgemmBf16Amx = kKernel<TileBf16>;
const BrgemmKernel kBrgemmU8S8Amx = kKernel<TileU8S8>;
const BrgemmKernel kBrgemmS8S8Amx = kKernel<TileS8S8>;

}  // namespace lathe::cpu
