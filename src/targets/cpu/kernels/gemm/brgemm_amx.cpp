// SPDX-License-Identifier: MIT
// GEMM on AMX tiles: 32 rows by a panel, in four accumulator tiles. Reads the panels of the AVX-512
// kernels: a tile of B is 16 of their groups of k, 64 bytes of each.
#include "targets/cpu/kernels/gemm/brgemm_table.h"
#include "targets/cpu/kernels/gemm/epilogue_simple.h"
#include "targets/cpu/kernels/gemm/epilogue_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kRowTile = 2 * kTileRows;
constexpr int64_t kTileGroups = 16;
constexpr int64_t kTileBytes = 64;  // of a row
constexpr int64_t kPanelColumns = 2 * kLanes;
constexpr int64_t kGroupBytes = kPanelColumns * 4;

// Tiles 0 to 3: accumulators, 2 × 2. Tiles 4 and 5: A. Tiles 6 and 7: B.
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

void configure(int64_t first, int64_t second) {
  TileConfig config;
  const auto one = static_cast<uint8_t>(first), two = static_cast<uint8_t>(second);
  const uint8_t tile_rows[8] = {one, one, two, two, one, two, kTileGroups, kTileGroups};
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = tile_rows[i];
    config.row_bytes[i] = tile_rows[i] == 0 ? 0 : kTileBytes;
  }
  _tile_loadconfig(&config);
}

// Rows of one tile of A.
struct Span {
  int64_t begin = 0;
  int64_t rows = 0;
};

// Maps a call's rows to tiles: consecutive rows, or, with padded output rows, parts of an output
// row or several output rows per tile. The padded form is used if it needs fewer tiles, since a
// tile's time does not depend on its rows.
class Spans {
 public:
  explicit Spans(const BrgemmCall& call)
      : rows_(call.rows), width_(call.output_row_width), pitch_(call.output_row_pitch) {
    count_ = (rows_ + kTileRows - 1) / kTileRows;
    if (pitch_ == 0) return;
    const int64_t parts = (width_ + kTileRows - 1) / kTileRows;
    const int64_t some = width_ < kTileRows ? (kTileRows - width_) / pitch_ + 1 : 1;
    const int64_t rows = (rows_ - width_) / pitch_ + 1;
    const int64_t count = parts > 1 ? rows * parts : (rows + some - 1) / some;
    const int64_t height = parts > 1 ? (width_ + parts - 1) / parts : (some - 1) * pitch_ + width_;
    if (count >= count_) return;
    count_ = count;
    parts_ = parts;
    output_rows_ = some;
    height_ = height;
  }
  int64_t count() const { return count_; }
  Span operator[](int64_t i) const {
    if (i >= count_) return {};
    if (height_ == 0) return {i * kTileRows, least(kTileRows, rows_ - i * kTileRows)};
    if (parts_ == 1) {
      const int64_t begin = i * output_rows_ * pitch_;
      return {begin, least(height_, rows_ - begin)};
    }
    const int64_t at = i % parts_ * height_;
    return {i / parts_ * pitch_ + at, least(height_, width_ - at)};
  }

 private:
  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
  int64_t rows_, width_, pitch_;
  int64_t count_ = 0;
  int64_t parts_ = 1;        // of an output row
  int64_t output_rows_ = 1;  // output rows per tile
  int64_t height_ = 0;       // rows of a span; 0: consecutive tiles
};

// Accumulators of two tiles of rows by a panel, in memory.
struct alignas(64) Sums {
  int32_t elements[kRowTile * kPanelColumns];
};
constexpr int64_t kSumsStride = kPanelColumns * 4;

// Incomplete tile at the end of K, zero-padded in A and B.
struct alignas(64) Tail {
  const char* of = nullptr;  // the part of B that it copies
  alignas(64) char bytes[kTileGroups * kGroupBytes];
};

inline void copy_bytes(const char* from, int64_t bytes, char* to) {
  const __mmask64 mask = bytes >= 64 ? ~__mmask64{0} : (__mmask64{1} << bytes) - 1;
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(mask, from));
}

// The tiles of A start at `first` and `second`.
template <class P, bool kTwo>
inline void step(const char* first, const char* second, int64_t stride, const char* b) {
  _tile_loadd(6, b, kGroupBytes);
  _tile_loadd(7, b + kTileBytes, kGroupBytes);
  _tile_loadd(4, first, stride);
  if constexpr (kTwo) {
    _tile_loadd(5, second, stride);
    P::dot_two_rows();
  } else {
    P::dot_one_row();
  }
}

// Prefetched cache lines [first, last) of each tile of B in the next panel.
struct PanelPrefetch {
  int64_t first = 0;
  int64_t last = 0;
};

// `between` runs after each step and overlaps with the tile unit.
template <class P, bool kTwo, bool kPrefetches, class Between>
inline void accumulate(const BrgemmCall& call, Span one, Span two, int64_t b_offset,
                       PanelPrefetch panel_prefetch, Tail& b_tail, Between&& between) {
  constexpr int64_t kTileElements = kTileGroups * P::kGroup;
  const int64_t stride = call.a_row_stride, apart = (two.begin - one.begin) * stride;
  const int64_t whole = call.k / kTileElements, rest = call.k % kTileElements;
  for (int64_t i = 0; i < call.block_count; ++i) {
    const char* a = static_cast<const char*>(call.blocks[i].a) + one.begin * stride;
    const char* b = static_cast<const char*>(call.blocks[i].b) + b_offset;
    for (int64_t t = 0; t < whole; ++t) {
      step<P, kTwo>(a, a + apart, stride, b);
      if constexpr (kPrefetches) {
        for (int64_t line = panel_prefetch.first; line < panel_prefetch.last; ++line)
          _mm_prefetch(b + call.b_panel_stride + line * 64, _MM_HINT_T1);
      }
      between();
      a += kTileBytes;
      b += kTileGroups * kGroupBytes;
    }
    if (rest == 0) continue;
    alignas(64) char a_tail[kRowTile * kTileBytes];
    const int64_t bytes = rest * 4 / P::kGroup;
    for (int64_t r = 0; r < one.rows; ++r)
      copy_bytes(a + r * stride, bytes, a_tail + r * kTileBytes);
    for (int64_t r = 0; r < two.rows; ++r)
      copy_bytes(a + apart + r * stride, bytes, a_tail + (kTileRows + r) * kTileBytes);
    const int64_t groups = (rest + P::kGroup - 1) / P::kGroup;
    for (int64_t g = 0; b_tail.of != b && g < kTileGroups; ++g) {
      for (int64_t half = 0; half < kGroupBytes; half += 64) {
        copy_bytes(b + g * kGroupBytes + half, g < groups ? 64 : 0,
                   b_tail.bytes + g * kGroupBytes + half);
      }
    }
    b_tail.of = b;
    step<P, kTwo>(a_tail, a_tail + kTileRows * kTileBytes, kTileBytes, b_tail.bytes);
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
// The second tile's rows start at `second`.
template <bool kTwo>
inline void store_tiles(char* first, char* second, int64_t stride) {
  _tile_stored(0, first, stride);
  _tile_stored(1, first + kTileBytes, stride);
  if constexpr (kTwo) {
    _tile_stored(2, second, stride);
    _tile_stored(3, second + kTileBytes, stride);
  }
}

// Copies the first `columns` columns of a panel row.
inline void copy_row(const int32_t* from, int64_t columns, int32_t* to) {
  for (int64_t c = 0; c < kPanelColumns; c += kLanes) {
    const int64_t left = columns - c;
    const Mask mask = mask_first(left < 0 ? 0 : left < kLanes ? left : kLanes);
    store(to + c, load(from + c, mask), mask);
  }
}

void start_sums(const BrgemmCall& call, Span span, int64_t column, int32_t* to) {
  const int64_t columns = call.columns - column;
  const auto* from = static_cast<const int32_t*>(call.start) + column;
  for (int64_t r = 0; r < span.rows; ++r, to += kPanelColumns) {
    store(to, zero_i32());
    store(to + kLanes, zero_i32());
    copy_row(from + (span.begin + r) * call.start_stride, columns, to);
  }
}

// Applies the epilogue to rows [row, row + rows) of C.
template <class P>
void finish(const BrgemmCall& call, int64_t row, int64_t rows, int64_t column,
            const int32_t* elements) {
  const int64_t columns =
      call.columns - column < kPanelColumns ? call.columns - column : kPanelColumns;
  char* out = static_cast<char*>(call.out) + row * call.out_stride;
  if (call.epilogue == nullptr) {
    for (int64_t r = 0; r < rows; ++r) {
      copy_row(elements + r * kPanelColumns, columns,
               reinterpret_cast<int32_t*>(out + r * call.out_stride) + column);
    }
    return;
  }
  EpilogueTile tile;
  tile.sums = elements;
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

// Runs the tiles of a call. Between the steps of one pair the epilogue of the previous pair runs,
// some rows at a time: vector and tile units overlap.
template <class P>
class Tiles {
 public:
  explicit Tiles(const BrgemmCall& call) : call_(call), spans_(call) {
    constexpr int64_t kElements = kTileGroups * P::kGroup;
    steps_ = call.block_count * ((call.k + kElements - 1) / kElements);
    pairs_ = (spans_.count() + 1) / 2;
  }

  // Rows first if all panels stay in L2: A and C are then accessed in memory order. Calls with few
  // rows read panels from memory and prefetch each during the previous one.
  void run() {
    constexpr int64_t kPanelInCache = 32 << 10, kPanelsInCache = 512 << 10, kMinPairsRowsFirst = 8;
    const int64_t panel = steps_ * kTileGroups * kGroupBytes;
    const int64_t panels = (call_.columns + kPanelColumns - 1) / kPanelColumns;
    // The tail of K is kept for one panel only.
    const bool whole = call_.k % (kTileGroups * P::kGroup) == 0;
    rows_first_ = whole && panels * panel <= kPanelsInCache &&
                  (!call_.b_is_cold || pairs_ >= kMinPairsRowsFirst);
    int64_t same = 1;
    while (same < pairs_ && height(same) == height(0)) ++same;
    // A panel that stays in L1 serves all tiles of one height first.
    if (!rows_first_ && panel > kPanelInCache) same = pairs_;
    run_pairs(0, same);
    for (int64_t i = same; i < pairs_; ++i) run_pairs(i, i + 1);
    apply_all();
  }

 private:
  static constexpr int64_t kSlice = 16;  // rows per epilogue call

  int64_t height(int64_t pair) const {
    return spans_[2 * pair].rows * kRowTile + spans_[2 * pair + 1].rows;
  }

  void run_pairs(int64_t first, int64_t last) {
    if (rows_first_) {
      for (int64_t i = first; i < last; ++i) {
        for (int64_t column = 0; column < call_.columns; column += kPanelColumns)
          run_pair(i, column);
      }
      return;
    }
    for (int64_t column = 0; column < call_.columns; column += kPanelColumns) {
      for (int64_t i = first; i < last; ++i) run_pair(i, column);
    }
  }

  void run_pair(int64_t i, int64_t column) {
    const Span one = spans_[2 * i], two = spans_[2 * i + 1];
    if (one.rows != height_[0] || (two.rows != 0 && two.rows != height_[1])) {
      configure(one.rows, two.rows);
      height_[0] = one.rows;
      height_[1] = two.rows;
    }
    if (two.rows != 0) {
      run_pair<true>(i, one, two, column);
    } else {
      run_pair<false>(i, one, two, column);
    }
  }

  // Prefetches the rows of the next pair, spread over all steps of this one: the hardware
  // prefetcher does not detect rows of tiles.
  void begin_prefetch(Span two) {
    prefetch_row_ = two.begin + two.rows;
    last_prefetch_row_ = 0;
    constexpr int64_t kMaxPrefetchColumns = 4 * kPanelColumns;  // more need no prefetch
    const bool helps = rows_first_ && call_.a_is_cold && call_.columns <= kMaxPrefetchColumns;
    if (!helps || call_.block_count != 1 || two.rows == 0) return;
    last_prefetch_row_ =
        prefetch_row_ + kRowTile < call_.rows ? prefetch_row_ + kRowTile : call_.rows;
    prefetch_at_ = 0;
    const int64_t cache_lines = kRowTile * steps_;
    const int64_t steps = steps_ * ((call_.columns + kPanelColumns - 1) / kPanelColumns);
    cache_lines_per_step_ = (cache_lines + steps - 1) / steps;
  }
  void prefetch() {
    const char* a = static_cast<const char*>(call_.blocks->a);
    for (int64_t i = 0; i < cache_lines_per_step_ && prefetch_row_ < last_prefetch_row_; ++i) {
      _mm_prefetch(a + prefetch_row_ * call_.a_row_stride + prefetch_at_, _MM_HINT_T1);
      prefetch_at_ += kTileBytes;
      if (prefetch_at_ < steps_ * kTileBytes) continue;
      prefetch_at_ = 0;
      ++prefetch_row_;
    }
  }

  PanelPrefetch panel_prefetch(int64_t pair, int64_t column) const {
    constexpr int64_t kCacheLines = kTileGroups * kGroupBytes / 64;
    PanelPrefetch out;
    const bool more = column + kPanelColumns < call_.columns || call_.b_continues;
    if (call_.b_is_cold && more && rows_first_) {
      out.last = pair == 0 ? kCacheLines : 0;
    } else if (call_.b_is_cold && more) {
      out.first = kCacheLines * pair / pairs_;
      out.last = kCacheLines * (pair + 1) / pairs_;
    }
    return out;
  }

  template <bool kTwo>
  void run_pair(int64_t pair, Span one, Span two, int64_t column) {
    int32_t* second = sums_.elements + kTileRows * kPanelColumns;
    char* memory = reinterpret_cast<char*>(sums_.elements);
    if (call_.start == nullptr) {
      zero_sums<kTwo>();
    } else {
      apply_all();
      start_sums(call_, one, column, sums_.elements);
      start_sums(call_, two, column, second);
      load_sums<kTwo>(memory, kSumsStride);
    }
    const int64_t waiting = (rows_left_ + kSlice - 1) / kSlice;
    const int64_t some = steps_ == 0 ? 0 : (waiting + steps_ - 1) / steps_;
    const int64_t b_offset = column / kPanelColumns * call_.b_panel_stride;
    if (column == 0) begin_prefetch(two);
    const auto between = [&] {
      prefetch();
      for (int64_t i = 0; i < some && rows_left_ > 0; ++i) apply_slice();
    };
    const PanelPrefetch panel_lines = panel_prefetch(pair, column);
    if (panel_lines.last > panel_lines.first) {
      accumulate<P, kTwo, true>(call_, one, two, b_offset, panel_lines, b_tail_, between);
    } else {
      accumulate<P, kTwo, false>(call_, one, two, b_offset, panel_lines, b_tail_, between);
    }
    apply_all();
    const bool whole = column + kPanelColumns <= call_.columns;
    if (call_.epilogue == nullptr && call_.output_row_pitch == 0 && whole) {
      char* out = static_cast<char*>(call_.out) + column * 4;
      store_tiles<kTwo>(out + one.begin * call_.out_stride, out + two.begin * call_.out_stride,
                        call_.out_stride);
      return;
    }
    store_tiles<kTwo>(memory, reinterpret_cast<char*>(second), kSumsStride);
    waiting_[0] = one;
    waiting_[1] = two;
    column_ = column;
    tile_ = done_ = 0;
    rows_left_ = one.rows + two.rows;
  }

  void apply_all() {
    while (rows_left_ > 0) apply_slice();
  }

  // Applies the epilogue to some pending rows, within one tile and one output row.
  void apply_slice() {
    if (done_ == waiting_[tile_].rows) {
      tile_ = 1;
      done_ = 0;
    }
    const Span span = waiting_[tile_];
    int64_t rows = span.rows - done_ < kSlice ? span.rows - done_ : kSlice;
    int64_t row = span.begin + done_;
    bool counts = true;
    if (call_.output_row_pitch != 0) {
      const auto pitch = static_cast<uint32_t>(call_.output_row_pitch),
                 at = static_cast<uint32_t>(row);
      const int64_t output_row = at / pitch, in_row = at % pitch;
      counts = in_row < call_.output_row_width;
      const int64_t left = (counts ? call_.output_row_width : call_.output_row_pitch) - in_row;
      if (!counts) rows = span.rows - done_;
      if (left < rows) rows = left;
      row = output_row * call_.output_row_width + in_row;
    }
    if (counts) {
      finish<P>(call_, row, rows, column_,
                sums_.elements + (tile_ * kTileRows + done_) * kPanelColumns);
    }
    done_ += rows;
    rows_left_ -= rows;
  }

  const BrgemmCall& call_;
  const Spans spans_;
  int64_t steps_ = 0;
  int64_t pairs_ = 0;
  bool rows_first_ = false;
  int64_t prefetch_row_ = 0, last_prefetch_row_ = 0;  // rows prefetched: the next and the end
  int64_t prefetch_at_ = 0,
          cache_lines_per_step_ = 0;  // next byte; cache lines per step
  int64_t height_[2] = {};            // of the configured tiles
  Sums sums_;                         // of pending tiles; the current ones are in tile registers
  Tail b_tail_;                       // shared by all rows of a column
  Span waiting_[2];
  int64_t column_ = 0;
  int64_t tile_ = 0, done_ = 0;  // progress of the epilogue in pending tiles
  int64_t rows_left_ = 0;
};

template <class P>
void run_tiles(const BrgemmCall& call) {
  Tiles<P>(call).run();
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
constexpr BrgemmKernel kKernel{run<P>, kPanelColumns, P::kGroup, kRowTile, 0, true, false, true};

}  // namespace

const BrgemmKernel kBrgemmBf16Amx = kKernel<TileBf16>;
const BrgemmKernel kBrgemmU8S8Amx = kKernel<TileU8S8>;
const BrgemmKernel kBrgemmS8S8Amx = kKernel<TileS8S8>;

}  // namespace lathe::cpu
