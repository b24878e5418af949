// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/matmul.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/error.h"
#include "targets/cpu/kernels/common/chunk_splitter.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/gemm/half_panels.h"
#include "targets/cpu/kernels/gemm/pack_a.h"

namespace lathe::cpu {
namespace {

// Split of rows and panels into chunks. K is never split here, so results do not depend on it.
struct Cut {
  int64_t row_block = 1;
  int64_t panel_block = 1;
  int64_t last_parts = 1;  // parts into which the last chunks' rows are split
};

constexpr int64_t kMaxDecodeRows = 4;
constexpr int64_t kSkinnyRows = 64;
constexpr int64_t kRowsInL2 = 256 << 10;    // of A that stay in L2 beside a panel
constexpr int64_t kPanelsInL2 = 256 << 10;  // of B that stay in L2 between row blocks
constexpr int64_t kPassRows = 288;          // rows per pass over B
constexpr int64_t kChunkWork = 1 << 22;     // f32 multiplications per chunk: 20 to 40 us
constexpr int64_t kMinWork = 1 << 18;       // per chunk split for more threads: 1 to 3 us
constexpr int64_t kMaxParts = 4;            // parts of a chunk split for load balance

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t threads_of(const ThreadPool* pool) { return pool == nullptr ? 1 : pool->threads(); }

// Throughput relative to f32.
int64_t speed(GemmType type) { return type == GemmType::f32 ? 1 : type == GemmType::bf16 ? 2 : 4; }

// B has 16-bit elements under an f32 GEMM.
bool is_half(const MatmulCall& call) {
  return call.type == GemmType::f32 && call.b_type != ElementType::f32;
}

// Rounds panels up to whole tiles.
int64_t whole_tiles(const BrgemmKernel& kernel, int64_t panels) {
  return std::max<int64_t>(1, divide_up(panels, kernel.panels_per_tile)) * kernel.panels_per_tile;
}

// At most the panels that leave a chunk for every thread.
int64_t share_of(const MatmulCall& call, const BrgemmKernel& kernel, int64_t chunks) {
  return std::max<int64_t>(1, divide_up(call.batch * panel_count(kernel, call.n), chunks));
}

Cut cut_decode(const MatmulCall& call, const BrgemmKernel& kernel, int64_t threads) {
  if (is_half(call)) {
    // Chunks of equal size for all threads; a panel at a time would wait for its FMAs.
    constexpr int64_t kMostPanels = 2 * kMaxGroupPanels;
    const int64_t share = share_of(call, kernel, threads);
    return {std::max<int64_t>(1, call.m), divide_up(share, divide_up(share, kMostPanels))};
  }
  // Memory-bound in B: at least 128 KiB and four panels per chunk, fewer if threads would idle.
  const int64_t panel = packed_panel_bytes(kernel, call.k);
  const int64_t panels = std::max<int64_t>(4, (128 << 10) / std::max<int64_t>(1, panel));
  const int64_t least = std::max<int64_t>(1, (32 << 10) / std::max<int64_t>(1, panel));
  return {std::max<int64_t>(1, call.m),
          std::min(divide_up(panels, 4) * 4, std::max(least, share_of(call, kernel, threads)))};
}

Cut cut_skinny(const MatmulCall& call, const BrgemmKernel& kernel, int64_t threads) {
  const int64_t work = std::max<int64_t>(1, call.m * call.k * kernel.panel_columns);
  const int64_t least = kMinWork * speed(call.type) / work;
  // Two chunks per thread: a slow thread takes one.
  const int64_t most = threads == 1 ? kChunkWork * speed(call.type) / work
                                    : std::min(kChunkWork * speed(call.type) / work,
                                               share_of(call, kernel, 2 * threads));
  return {call.m, whole_tiles(kernel, std::max(least, most))};
}

// An M block fits L2 with a B panel, or is large enough to reload B rarely; smaller if threads
// would get too few chunks, and as low as four register tiles if columns alone leave a thread fewer
// than two. If m >= n, or its rows fill several tiles, each thread gets whole row blocks. Threads
// without a shared cache are slow to read the same A, to write adjacent parts of C and to read what
// another one wrote: GEMMs and normalisations in turn keep a thread's rows in its cache.
Cut cut_square(const MatmulCall& call, const BrgemmKernel& kernel, int64_t threads) {
  const int64_t row_bytes = std::max<int64_t>(1, call.k * a_size(call.type));
  const int64_t rows = std::max(kRowsInL2 / row_bytes, kPassRows);
  const int64_t columns = whole_tiles(kernel, 1) * kernel.panel_columns;
  const int64_t column_tiles = call.batch * divide_up(call.n, columns);
  const int64_t tile = kernel.row_tile;
  const int64_t lowest = std::max(
      column_tiles < 2 * threads ? std::max(tile, std::min<int64_t>(4 * tile, 32)) : 12 * tile,
      kMinWork * speed(call.type) / (std::max<int64_t>(1, call.k) * columns));
  constexpr int64_t kLeastTiles = 10;  // of a thread's rows: each reads all of B
  const bool fills_tiles = call.batch == 1 && call.m >= kLeastTiles * tile * threads;
  const bool by_rows = threads > 1 && (call.m >= call.n || fills_tiles);
  const int64_t chunks = (by_rows ? 16 : 4) * threads;
  const int64_t spread = std::min(divide_up(chunks, column_tiles), call.m / lowest);
  int64_t blocks = std::max(divide_up(call.m, rows), spread);
  if (by_rows && (fills_tiles || blocks > threads)) blocks = divide_up(blocks, threads) * threads;
  const int64_t block = divide_up(call.m, blocks);  // nearly equal heights
  const int64_t work = block * call.k * kernel.panel_columns;
  int64_t panels = kChunkWork * speed(call.type) / std::max<int64_t>(1, work);
  // Enough chunks for load balance.
  if (by_rows) {
    panels = std::min(panels, divide_up(call.n, kernel.panel_columns) * blocks / chunks);
  }
  panels = whole_tiles(kernel, panels);
  const int64_t most = work * panels / (kMinWork * speed(call.type));
  const int64_t tiles = block / (2 * int64_t{kernel.row_tile});
  return {block, panels, std::clamp<int64_t>(std::min(most, tiles), 1, kMaxParts)};
}

// AMX tiles read A and B from L2: blocks of rows by as many panels as fit there, so that C is
// written in long runs. Two threads run squares of 512 to 2048 1.2 to 1.5 times as fast as one
// panel at a time.
Cut cut_tiles(const MatmulCall& call, const BrgemmKernel& kernel, int64_t threads) {
  constexpr int64_t kShareBytes = 512 << 10;  // L2 share of A and of B
  constexpr int64_t kMinRows = 64, kMinPanels = 4;
  const int64_t row_bytes = std::max<int64_t>(1, call.k * a_size(call.type));
  const int64_t panel_bytes = std::max<int64_t>(1, packed_panel_bytes(kernel, call.k));
  const int64_t panels = panel_count(kernel, call.n);
  const int64_t chunks = divide_up(4 * threads, call.batch);
  int64_t across = divide_up(panels, std::max(kMinPanels, kShareBytes / panel_bytes));
  const int64_t down = std::max(divide_up(call.m, std::max(kMinRows, kShareBytes / row_bytes)),
                                std::min(divide_up(chunks, across), divide_up(call.m, kMinRows)));
  across = std::max(across, std::min(divide_up(chunks, down), panels));
  const int64_t rows = divide_up(divide_up(call.m, down), kernel.row_tile) * kernel.row_tile;
  return {rows, divide_up(panels, across)};
}

// A block of a tuned size: whole units, at least one; at most `most`.
int64_t scaled(int64_t block, int log2_factor, int64_t unit, int64_t most) {
  if (log2_factor == 0) return block;
  const int64_t wanted = log2_factor > 0 ? block << log2_factor : block >> -log2_factor;
  return std::clamp<int64_t>(divide_up(wanted, unit) * unit, 1, std::max<int64_t>(most, 1));
}

// State of one GEMM call.
class Run {
 public:
  Run(const MatmulCall& call, ThreadPool* pool)
      : call_(call),
        kernel_(brgemm_kernel(call.isa, kernel_type(call))),
        is_half_(is_half(call)),
        layout_(is_half_ ? half_panels_layout(kernel_, call.k, call.n)
                         : packed_layout(kernel_, call.type, call.k, call.n)),
        rows_(call, kernel_, pool),
        shift_(brgemm_kernel(call.isa, call.type).a_zero_shift),
        pool_(pool),
        split_(split_of_k(call.n, call.k)) {
    if (has_integer_sums(call.type)) correct_zero_points();
  }

  void run(Cut cut) {
    cut.row_block = scaled(cut.row_block, call_.blocking.log2_rows, kernel_.row_tile, call_.m);
    cut.panel_block = scaled(cut.panel_block, call_.blocking.log2_panels, kernel_.panels_per_tile,
                             layout_.panels);
    const int64_t row_blocks = divide_up(call_.m, cut.row_block);
    const int64_t panel_blocks = blocks_of_panels(cut.panel_block);
    const int64_t per_gemm = row_blocks * panel_blocks;
    if (split_ > 1) {
      partial_ = reinterpret_cast<float*>(
          thread_scratch(ScratchUse::split_k_parts, split_ * call_.m * call_.n * call_.batch * 4));
    }
    const ChunkSplitter chunks(call_.batch * per_gemm * split_, threads_of(pool_), cut.last_parts);
    parallel_for(pool_, chunks.count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const ChunkSplitter::Part part = chunks[i];
        const int64_t block = part.chunk / split_;
        const int64_t row = block % per_gemm / panel_blocks * cut.row_block;
        const auto start_of = [&](int64_t i) {
          return splits_by_groups() ? layout_.panels * i / panel_blocks
                                    : std::min(layout_.panels, cut.panel_block * i);
        };
        const int64_t panel = start_of(block % panel_blocks);
        const int64_t rows = std::min(cut.row_block, call_.m - row);
        const int64_t panels = start_of(block % panel_blocks + 1) - panel;
        const int64_t from = part.begin(rows, kernel_.row_tile);
        const int64_t to = part.end(rows, kernel_.row_tile);
        if (from == to) continue;
        multiply(block / per_gemm, row + from, to - from, panel, panels, part.chunk % split_, part);
      }
    });
    if (split_ > 1) merge();
  }

 private:
  // Rows of A that read B's 16-bit elements as they are.
  bool reads_halves() const { return is_half_ && call_.m <= kMaxHalfRows; }
  bool splits_by_groups() const { return is_half_ && call_.m <= kSkinnyRows; }

  // Blocks of panels: of nearly equal size for halves and a small M, and whole groups where these
  // are as many for each thread.
  int64_t blocks_of_panels(int64_t block) const {
    const int64_t blocks = divide_up(layout_.panels, block);
    if (!splits_by_groups()) return blocks;
    const int64_t groups = HalfGroups(layout_.panels).count;
    for (int64_t some = std::min(blocks, groups); some <= groups; ++some) {
      if (groups % some == 0 && some % threads_of(pool_) == 0) return some;
    }
    return blocks;
  }

  // Adds the compensation for zero points of A and B to the epilogue.
  void correct_zero_points() {
    epilogue_ = call_.epilogue;
    const int32_t shift = shift_ + (call_.a_zeros == nullptr ? call_.a_zero : 0);
    if (shift == 0 && call_.a_zeros == nullptr && call_.b_zeros == nullptr) return;
    // One set of compensation per B of the batch.
    const int64_t sets = call_.b_batch_stride == 0 ? 1 : call_.batch;
    columns_.resize(static_cast<size_t>(sets * call_.n));
    for (int64_t set = 0; set < sets; ++set) {
      const int32_t* sums = sums_of(set);
      int32_t* columns = columns_.data() + set * call_.n;
      for (int64_t c = 0; c < call_.n; ++c) {
        const int32_t added =
            epilogue_.column_compensation == nullptr ? 0 : epilogue_.column_compensation[c];
        columns[c] = added - shift * sums[c];
      }
    }
    if (call_.b_zeros != nullptr) {
      row_sums_ = rows_.sums();
      for (size_t r = 0; r < row_sums_.size(); ++r) {
        const int32_t zero = call_.a_zeros == nullptr ? call_.a_zero : call_.a_zeros[r];
        row_sums_[r] -= static_cast<int32_t>(call_.k) * zero;
      }
    }
    for (int64_t set = 0; set < sets; ++set) {
      outer_.insert(outer_.end(), epilogue_.outer.begin(), epilogue_.outer.end());
      if (call_.a_zeros != nullptr) outer_.push_back({call_.a_zeros, sums_of(set)});
      if (call_.b_zeros != nullptr) outer_.push_back({row_sums_.data(), call_.b_zeros});
    }
  }

  const int32_t* sums_of(int64_t set) const {
    return packed_sums(layout_, static_cast<const char*>(call_.b) + set * call_.b_batch_stride);
  }

  Epilogue epilogue_of(int64_t batch) const {
    if (columns_.empty()) return call_.epilogue;  // no zero points
    const int64_t set = call_.b_batch_stride == 0 ? 0 : batch;
    const size_t outers = outer_.size() * static_cast<size_t>(call_.n) / columns_.size();
    Epilogue out = epilogue_;
    out.column_compensation = columns_.data() + set * call_.n;
    out.outer = std::span(outer_).subspan(static_cast<size_t>(set) * outers, outers);
    return out;
  }

  char* out_of(int64_t batch, int64_t row, int64_t column) const {
    const int64_t size = out_size(call_.epilogue.out);
    return static_cast<char*>(call_.out) +
           (batch * call_.out_batch_stride + row * call_.out_row_stride + column) * size;
  }
  float* partial_of(int64_t part, int64_t batch, int64_t row, int64_t column) {
    return partial_ + ((part * call_.batch + batch) * call_.m + row) * call_.n + column;
  }

  void multiply(int64_t batch, int64_t row, int64_t rows, int64_t panel, int64_t panels,
                int64_t part, const ChunkSplitter::Part& rows_of) {
    // Parts start at whole groups.
    const int64_t groups = divide_up(call_.k, kernel_.k_group);
    const int64_t first = groups * part / split_ * kernel_.k_group;
    const int64_t last = std::min(call_.k, groups * (part + 1) / split_ * kernel_.k_group);
    const int64_t column = panel * kernel_.panel_columns;
    const char* const b = static_cast<const char*>(call_.b) + batch * call_.b_batch_stride;
    BrgemmBlock block{
        rows_.address(batch, row, first),
        b + panel * layout_.panel_bytes + first / kernel_.k_group * kernel_.panel_columns * 4};
    BrgemmCall call;
    call.blocks = &block;
    call.block_count = 1;
    call.k = last - first;
    call.a_row_stride = rows_.row_stride();
    call.b_panel_stride = layout_.panel_bytes;
    call.rows = rows;
    call.columns = std::min(panels * kernel_.panel_columns, call_.n - column);
    call.b_is_cold = layout_.bytes > kPanelsInL2;
    call.a_is_cold = true;
    call.b_continues = column + call.columns < call_.n;
    call.prefetch_part = rows_of.part;
    call.prefetch_parts = rows_of.parts;
    call.row = call_.first_row + batch * call_.m + row;
    call.column = column;
    HalfPanelsCall half;
    if (is_half_) {
      half = {.type = call_.b_type,
              .a = block.a,
              .a_row_stride = call.a_row_stride,
              .b = b,
              .b_k = call_.k,
              .b_panels = layout_.panels,
              .first = first,
              .k = call.k,
              .panel = panel,
              .rows = rows,
              .columns = call.columns};
      if (!reads_halves()) block.b = widened(half, call);
    }
    if (split_ > 1) {
      call.out = partial_of(part, batch, row, column);
      call.out_stride = call_.n * 4;
      run(call, half);
      return;
    }
    const Epilogue epilogue = epilogue_of(batch);
    const bool as_is =
        epilogue.keeps_sums() && epilogue.out_zero.data == nullptr &&
        epilogue.out_zero.scale == 0 &&
        epilogue.out == (has_integer_sums(call_.type) ? ElementType::i32 : ElementType::f32);
    call.out = out_of(batch, row, column);
    call.out_stride = call_.out_row_stride * out_size(epilogue.out);
    // Register tiles overlap an f32 epilogue, even an empty one, with their last FMAs.
    const bool epilogue_by_rows = epilogue.out == ElementType::f32 && rows > kMaxDecodeRows;
    call.epilogue = as_is && !epilogue_by_rows ? nullptr : &epilogue;
    run(call, half);
  }

  // The call's panels of 16-bit elements as f32, in the thread's scratch.
  const void* widened(const HalfPanelsCall& half, BrgemmCall& call) const {
    const int64_t bytes = half.k * kernel_.panel_columns * static_cast<int64_t>(sizeof(float));
    std::byte* wide = thread_scratch(ScratchUse::gemm_panels,
                                     divide_up(half.columns, kernel_.panel_columns) * bytes);
    half_panels_kernel(call_.isa).widen(half, reinterpret_cast<float*>(wide));
    call.b_panel_stride = bytes;
    call.b_is_cold = call.b_continues = false;
    return wide;
  }

  void run(const BrgemmCall& call, HalfPanelsCall& half) const {
    if (!reads_halves()) return kernel_.run(call);
    if (call.epilogue == nullptr) {
      half.sums = static_cast<float*>(call.out);
      half.sums_stride = call.out_stride / static_cast<int64_t>(sizeof(float));
      return half_panels_kernel(call_.isa).multiply(half);
    }
    half.sums_stride = call.columns;
    half.sums = reinterpret_cast<float*>(thread_scratch(
        ScratchUse::gemm_panels, call.rows * call.columns * static_cast<int64_t>(sizeof(float))));
    half_panels_kernel(call_.isa).multiply(half);
    EpilogueTile tile;
    tile.sums = half.sums;
    tile.sums_stride = half.sums_stride;
    tile.rows = call.rows;
    tile.columns = call.columns;
    tile.row = call.row;
    tile.column = call.column;
    tile.out = call.out;
    tile.out_stride = call.out_stride;
    finish_tile(call_.isa)(*call.epilogue, tile);
  }

  // Adds the split-K parts in order, then applies the epilogue.
  void merge() {
    const bool integers = has_integer_sums(call_.type);
    const FinishTile finish = finish_tile(call_.isa);
    parallel_for(pool_, call_.batch * call_.m, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t batch = r / call_.m, row = r % call_.m;
        float* sums = partial_of(0, batch, row, 0);
        for (int64_t part = 1; part < split_; ++part) {
          add_row(partial_of(part, batch, row, 0), call_.n, integers, sums);
        }
        const Epilogue epilogue = epilogue_of(batch);
        EpilogueTile tile;
        tile.sums = sums;
        tile.integer_sums = integers;
        tile.sums_stride = call_.n;
        tile.rows = 1;
        tile.columns = call_.n;
        tile.row = call_.first_row + r;
        tile.out = out_of(batch, row, 0);
        finish(epilogue, tile);
      }
    });
  }

  const MatmulCall& call_;
  const BrgemmKernel& kernel_;
  const bool is_half_;  // B has 16-bit elements
  PackedLayout layout_;
  PackedRowsOfA rows_;
  int32_t shift_;  // added to each element of A, by the kernel or by the copy
  ThreadPool* pool_;
  int64_t split_;
  Epilogue epilogue_;
  std::vector<OuterCompensation> outer_;
  std::vector<int32_t> columns_;
  std::vector<int32_t> row_sums_;
  float* partial_ = nullptr;
};

bool is_empty(const MatmulCall& call) { return call.m <= 0 || call.n <= 0 || call.batch <= 0; }

void run_decode(const MatmulCall& call, ThreadPool* pool) {
  if (is_empty(call)) return;
  Run(call, pool).run(cut_decode(call, brgemm_kernel(call.isa, call.type), threads_of(pool)));
}
void run_skinny(const MatmulCall& call, ThreadPool* pool) {
  if (is_empty(call)) return;
  Run(call, pool).run(cut_skinny(call, brgemm_kernel(call.isa, call.type), threads_of(pool)));
}
void run_square(const MatmulCall& call, ThreadPool* pool) {
  if (is_empty(call)) return;
  const int64_t threads = threads_of(pool);
  const BrgemmKernel& kernel = brgemm_kernel(call.isa, call.type);
  const bool in_tiles = call.isa == Isa::amx && call.type != GemmType::f32;
  const bool by_tiles = in_tiles && threads > 1 && call.m >= call.n;
  Run(call, pool)
      .run(by_tiles ? cut_tiles(call, kernel, threads) : cut_square(call, kernel, threads));
}

constexpr std::array<MatmulVariant, 3> kVariants{{
    {"matrix-vector", kMaxDecodeRows, run_decode},
    {"skinny", kSkinnyRows, run_skinny},
    {"square", std::numeric_limits<int64_t>::max(), run_square},
}};

}  // namespace

std::span<const MatmulVariant> matmul_variants() { return kVariants; }

void matmul(const MatmulCall& call, ThreadPool* pool) {
  const Isa isa = fastest_isa(call.isa, call.type, call.m, call.n, call.k);
  if (isa != call.isa) {
    MatmulCall other = call;  // shares the packing of B
    other.isa = isa;
    return matmul(other, pool);
  }
  if (call.blocking.variant >= 0) {
    const MatmulVariant& chosen = kVariants[static_cast<size_t>(call.blocking.variant)];
    if (call.m <= chosen.most_rows) return chosen.run(call, pool);
  }
  for (const MatmulVariant& variant : kVariants) {
    if (call.m <= variant.most_rows) return variant.run(call, pool);
  }
}

namespace {

// GEMM j of a batch of f32 or bf16 GEMMs.
MatmulCall gemm_of_batch(const MatmulCall& call, int64_t j, const void* b) {
  MatmulCall one = call;
  one.batch = 1;
  one.first_row += j * call.m;
  one.a = static_cast<const char*>(call.a) + j * call.a_batch_stride * info(call.a_type).bits / 8;
  one.out = static_cast<char*>(call.out) + j * call.out_batch_stride * out_size(call.epilogue.out);
  one.b = b;
  return one;
}

}  // namespace

void matmul_dynamic(const MatmulCall& call, const PackSource& b, int64_t b_batch_stride,
                    ThreadPool* pool) {
  if (is_empty(call)) return;
  const BrgemmKernel& kernel = brgemm_kernel(call.isa, call.type);
  const PackedLayout layout = packed_layout(kernel, call.type, call.k, call.n);
  const int64_t count = b_batch_stride == 0 ? 1 : call.batch;
  const int64_t threads = threads_of(pool);
  if (count >= 2 * threads && !has_integer_sums(call.type)) {
    // One task per GEMM: its packed B is still cached.
    parallel_for(pool, count, 1, [&](int64_t begin, int64_t end) {
      std::byte* packed = thread_scratch(ScratchUse::gemm_panels, layout.bytes);
      for (int64_t j = begin; j < end; ++j) {
        PackSource source = b;
        source.data = static_cast<const char*>(b.data) + j * b_batch_stride * info(b.type).bits / 8;
        pack_b(kernel, call.type, source, packed, nullptr);
        matmul(gemm_of_batch(call, j, packed), nullptr);
      }
    });
    return;
  }
  auto* out =
      reinterpret_cast<char*>(thread_scratch(ScratchUse::gemm_panels, count * layout.bytes));
  for (int64_t i = 0; i < count; ++i) {
    PackSource source = b;
    source.data = static_cast<const char*>(b.data) + i * b_batch_stride * info(b.type).bits / 8;
    pack_b(kernel, call.type, source, out + i * layout.bytes, pool);
  }
  MatmulCall inner = call;
  inner.b = out;
  inner.b_batch_stride = b_batch_stride == 0 ? 0 : layout.bytes;
  matmul(inner, pool);
}

int64_t split_of_k(int64_t n, int64_t k) {
  constexpr int64_t kNarrow = 512, kDeep = 4096, kPart = 2048, kMaxSplits = 8;
  return n <= kNarrow && k >= kDeep ? std::min(kMaxSplits, k / kPart) : 1;
}

}  // namespace lathe::cpu
