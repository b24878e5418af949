// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <span>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/attention/attention_paged_blocks.h"
#include "targets/cpu/kernels/attention/attention_tasks.h"
#include "targets/cpu/kernels/attention/attention_tiles.h"

namespace lathe::cpu {

[[gnu::weak]] const AttentionKernels& attention_f32_avx2();
[[gnu::weak]] const AttentionKernels& attention_f32_avx512();
[[gnu::weak]] const AttentionKernels& attention_bf16_avx512();
[[gnu::weak]] const AttentionKernels& attention_int16_avx512();
[[gnu::weak]] const AttentionKernels& attention_bf16_amx();

namespace {

constexpr int64_t kGroup = 4;  // tiles of a task share its loads of keys and values
constexpr int64_t kSplit = 4;  // key blocks per task in the split cache
constexpr int64_t kLongSplit = 8;
constexpr int64_t kTasksPerThread = 8;
constexpr int64_t kFewTasksPerThread = 4;  // lower bound: a task gets fewer tiles first
constexpr int64_t kBlocksPerThread = 4;    // lower bound for tasks that run all KV heads
// Prefetches the next task's data this many blocks before its end.
constexpr int64_t kPrefetchBlocks = 2;
// Bytes of partial results before a merge; at least one task per tile.
constexpr int64_t kPartialBytes = 8 << 20;

bool is_float(ElementType type) {
  return type == ElementType::f32 || type == ElementType::bf16 || type == ElementType::f16;
}

const AttentionKernels& kernels_of(Isa isa, bool bf16, ElementType cache) {
  const auto kernels = bf16 && isa == Isa::amx            ? attention_bf16_amx
                       : bf16 && cache == ElementType::i8 ? attention_int16_avx512
                       : bf16                             ? attention_bf16_avx512
                       : isa >= Isa::avx512               ? attention_f32_avx512
                                                          : attention_f32_avx2;
  return in_build(kernels, isa)();
}

void clear(const AttentionState& state, int64_t output_size, int64_t pitch) {
  std::fill_n(state.output, output_size, 0.0F);
  std::fill_n(state.largest, pitch, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, pitch, 0.0F);
}

AttentionState take_state(ScratchLayout& layout, int64_t output_size, int64_t pitch) {
  return {layout.take<float>(output_size), layout.take<float>(pitch), layout.take<float>(pitch)};
}

// Consecutive states, each aligned to a cache line.
class States {
 public:
  States(ScratchLayout& layout, int64_t count, int64_t output_size, int64_t pitch)
      : largest_(round_up(output_size)), sum_(largest_ + round_up(pitch)) {
    step_ = sum_ + round_up(pitch);
    first_ = layout.take<float>(count * step_);
  }
  AttentionState operator[](int64_t i) const {
    float* at = first_ + i * step_;
    return {at, at + largest_, at + sum_};
  }

 private:
  static int64_t round_up(int64_t floats) { return (floats + 15) / 16 * 16; }
  int64_t largest_;
  int64_t sum_;
  int64_t step_;
  float* first_;
};

// One call for all rows.
class Run {
 public:
  Run(const AttentionProblem& problem, const AttentionKernels& kernels,
      const AttentionArguments& arguments, ThreadPool* pool)
      : p_(problem),
        kernels_(kernels),
        x_(arguments),
        pool_(pool),
        rows_(arguments.queries * (problem.heads / problem.key_heads)),
        tile_rows_(kernels.lanes * kernels.vectors),
        tiles_((rows_ + tile_rows_ - 1) / tile_rows_),
        pairs_(arguments.batch * problem.key_heads) {}

  void run() {
    int64_t blocks = 0, all_blocks = 0;  // of the longest batch row, of all pairs
    int64_t longest = 0;
    thread_local std::vector<AttentionKeys> keys;  // of each batch row
    keys.clear();
    for (int64_t b = 0; b < x_.batch; ++b) {
      const AttentionTiles tiles = part(b * p_.key_heads, 0, rows_);
      const int64_t here = tiles.last_block();
      keys.push_back({tiles.first_block(), here, tiles.last_key() + 1});
      if (here > blocks) longest = b;
      blocks = std::max(blocks, here);
      all_blocks += here * p_.key_heads;
    }
    const bool decode = rows_ <= kernels_.max_decode_rows;  // the decode kernels only run split
    if (x_.split > 0 || decode || (tiles_ == 1 && blocks > kSplit)) {
      all_heads_ = heads_fit(all_blocks, longest);
      const bool shares = shares_fit(blocks, all_blocks);
      thread_local AttentionShares assigned;
      if (shares) {
        assigned.assign(keys, p_.key_heads, blocks, std::min(threads(), all_blocks));
        shares_ = &assigned;
      }
      run_split(blocks, shares ? blocks : x_.split > 0 ? x_.split : split_of(all_blocks));
    } else {
      run_unsplit();
    }
  }

 private:
  int64_t pitch_of(int64_t rows) const {  // in full vectors
    return kernels_.lanes * ((rows + kernels_.lanes - 1) / kernels_.lanes);
  }
  // Rows [first, first + count) of a pair of batch row and KV head.
  AttentionTiles part(int64_t pair, int64_t first, int64_t count) const {
    return {p_, kernels_, x_, pair / p_.key_heads, pair % p_.key_heads, first, count};
  }
  AttentionTiles one_tile(int64_t pair, int64_t tile) const {
    return part(pair, tile * tile_rows_, std::min(tile_rows_, rows_ - tile * tile_rows_));
  }

  int64_t threads() const { return pool_ == nullptr ? 1 : pool_->threads(); }

  // True if a task runs all KV heads of a batch row: their pages are consecutive in the longest
  // row, and there are enough tasks.
  bool heads_fit(int64_t all_blocks, int64_t longest) const {
    return tiles_ == 1 && all_blocks >= kBlocksPerThread * threads() * p_.key_heads &&
           PagedBlocks(p_, kernels_, x_, longest, rows_).may_run();
  }
  int64_t heads() const { return all_heads_ ? p_.key_heads : 1; }  // per task

  // Bytes of a tile's partial result of one block.
  int64_t partial_bytes() const {
    const int64_t rows = std::min(rows_, tile_rows_);
    return (rows * part(0, 0, 1).value_pitch() + 2 * pitch_of(rows)) * int64_t{sizeof(float)};
  }

  // True if each thread gets one share of the keys: few blocks, whose tasks would be too short to
  // read memory sequentially.
  bool shares_fit(int64_t blocks, int64_t all_blocks) const {
    return x_.split == 0 && !all_heads_ && tiles_ == 1 && blocks > 0 &&
           all_blocks <= kSplit * kTasksPerThread * threads() &&
           pairs_ * blocks * partial_bytes() <= kPartialBytes;
  }

  // Long tasks read memory sequentially; short ones balance the load.
  int64_t split_of(int64_t all_blocks) const {
    const bool contiguous = tiles_ == 1 && part(0, 0, rows_).may_use_contiguous();
    const int64_t tasks = kTasksPerThread * threads();
    if (all_heads_) {
      const int64_t limit = PagedBlocks(p_, kernels_, x_, 0, rows_).max_blocks();
      return std::clamp<int64_t>(all_blocks / p_.key_heads / tasks, 1, limit);
    }
    const int64_t longest = x_.k.is_paged() ? kSplit : contiguous ? kContiguousBlocks : kLongSplit;
    return std::clamp(all_blocks * tiles_ / tasks, kSplit, longest);
  }

  // Each task merges the blocks of its rows one by one.
  void run_unsplit() {
    const int64_t group =
        std::clamp<int64_t>(tiles_ * pairs_ / (kFewTasksPerThread * threads()), 1, kGroup);
    const int64_t groups = (tiles_ + group - 1) / group;
    parallel_for(pool_, pairs_ * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        // Tasks go head by head: keys and values of a head stay in L2. Causal masks make later rows
        // longer, so those run first.
        const int64_t first = (groups - 1 - at % groups) * group * tile_rows_;
        AttentionTiles tiles =
            part(at / groups, first, std::min(group * tile_rows_, rows_ - first));
        run_task(tiles);
      }
    });
  }

  void run_task(AttentionTiles& tiles) const {
    const int64_t output_size = tiles.value_size() * tile_rows_;
    AttentionState partial;
    std::array<AttentionState, kGroup> states;
    const auto place = [&](ScratchLayout layout) {
      tiles.place(layout);
      partial = take_state(layout, output_size, tile_rows_);
      for (int64_t i = 0; i < tiles.tiles(); ++i) {
        states[static_cast<size_t>(i)] = take_state(layout, output_size, tile_rows_);
      }
      return layout.bytes();
    };
    place(ScratchLayout(thread_scratch(ScratchUse::task, place(ScratchLayout()))));
    tiles.prefetch_block(tiles.first_block());
    tiles.load_queries();
    std::array<bool, kGroup> started{};
    for (int64_t block = tiles.first_block(); block < tiles.last_block(); ++block) {
      tiles.load_block(block);
      for (int64_t i = 0; i < tiles.tiles(); ++i) {
        const AttentionState& state = states[static_cast<size_t>(i)];
        bool& is_started = started[static_cast<size_t>(i)];
        if (!is_started) {  // the first block needs no merge
          is_started = tiles.run(i, state);
        } else if (tiles.run(i, partial)) {
          kernels_.merge(state, partial, tiles.value_size(), tiles.pitch(i));
        }
      }
    }
    for (int64_t i = 0; i < tiles.tiles(); ++i) {
      const AttentionState& state = states[static_cast<size_t>(i)];
      if (!started[static_cast<size_t>(i)]) clear(state, output_size, tile_rows_);
      tiles.finish(i, state, false);
    }
  }

  // Tasks compute blocks, which are merged in ascending order. A decode task merges its own blocks
  // while they are cached, if all blocks before them are merged. Other blocks are merged
  // afterwards, a bounded number at a time.
  void run_split(int64_t blocks, int64_t split) {
    const int64_t rows = std::min(rows_, tile_rows_), pitch = pitch_of(rows);
    const int64_t all = pairs_ * tiles_;
    const int64_t output_size = output_size_ = rows * part(0, 0, 1).value_pitch();
    const int64_t one = partial_bytes();
    const int64_t wave = std::clamp(kPartialBytes / (one * all) / split * split, split,
                                    std::max(split, (blocks + split - 1) / split * split));
    std::byte* memory = thread_scratch(
        ScratchUse::caller, all * ((wave + 1) * (one + 3 * 64) + wave + int64_t{sizeof(int64_t)}) +
                                3 * 64 + queries_bytes());
    ScratchLayout layout(memory);
    const States states(layout, all, output_size, pitch);
    const States partials(layout, all * wave, output_size, pitch);
    auto* used = layout.take<uint8_t>(all * wave);
    auto* merged = layout.take<int64_t>(all);  // blocks of each tile
    std::fill_n(merged, all, int64_t{0});
    task_bytes_ = task_bytes();
    if (all_heads_) load_queries(layout);
    for (int64_t first = 0; first < blocks; first += wave) {
      const int64_t parts = (std::min(wave, blocks - first) + split - 1) / split;
      const int64_t tasks =
          shares_ != nullptr ? std::ssize(shares_->tasks()) : all / heads() * parts;
      parallel_for(pool_, tasks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
          const AttentionTask task = shares_ != nullptr ? shares_->tasks()[static_cast<size_t>(at)]
                                                        : task_of(at, parts, split);
          if (task.tile < 0) continue;
          const int64_t tile = task.tile, from = task.block;
          const int64_t count = std::min(task.count, std::min(wave, blocks - first) - from);
          const std::atomic_ref<int64_t> so_far(merged[tile]);
          const bool in_order = so_far.load(std::memory_order_acquire) == first + from;
          if (all_heads_) {
            compute_heads(tile, first + from, count, partials, tile * wave + from, wave, used,
                          in_order ? &states : nullptr, first + from + count == blocks);
            if (!in_order) continue;
            std::fill_n(merged + tile + 1, p_.key_heads - 1, first + from + count);
            so_far.store(first + from + count, std::memory_order_release);
            continue;
          }
          const AttentionState state = states[tile];
          const bool merges =
              compute(tile, first + from, count, partials, tile * wave + from,
                      used + tile * wave + from, in_order ? &state : nullptr,
                      first + from + count == blocks, next_of(at, parts, first, split));
          if (merges) so_far.store(first + from + count, std::memory_order_release);
        }
      });
      const bool last = first + wave >= blocks;
      const int64_t end = std::min(first + wave, blocks);
      if (std::count(merged, merged + all, end) == all) continue;
      parallel_for(pool_, all, 1, [&](int64_t begin, int64_t stop) {
        for (int64_t tile = begin; tile < stop; ++tile) {
          const int64_t done = std::max<int64_t>(0, merged[tile] - first);
          if (merged[tile] == end) continue;
          if (merged[tile] == 0) clear_state(states[tile]);
          merge_wave(tile, states[tile], partials, tile * wave + done, used + tile * wave + done,
                     end - first - done, last);
          merged[tile] = end;
        }
      });
    }
    if (blocks == 0) {
      for (int64_t tile = 0; tile < all; ++tile) {
        clear_state(states[tile]);
        merge_wave(tile, states[tile], partials, 0, nullptr, 0, true);
      }
    }
  }

  // Floats of all heads of one batch row.
  int64_t query_floats() const { return PagedBlocks(p_, kernels_, x_, 0, rows_).query_floats(); }
  int64_t queries_bytes() const {
    return all_heads_ ? x_.batch * query_floats() * static_cast<int64_t>(sizeof(float)) : 0;
  }
  void load_queries(ScratchLayout& layout) {
    const int64_t floats = query_floats();
    auto* queries = layout.take<float>(x_.batch * floats);
    queries_ = queries;
    parallel_for(pool_, x_.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        PagedBlocks(p_, kernels_, x_, b, rows_).load_queries(queries + b * floats);
      }
    });
  }

  // Tasks follow the order of memory: a page has some keys of every head.
  AttentionTask task_of(int64_t at, int64_t parts, int64_t split) const {
    const int64_t groups = pairs_ * tiles_ / heads();
    if (x_.k.is_paged()) return {at % groups * heads(), at / groups * split, split};
    return {at / parts, at % parts * split, split};
  }

  // Prediction of the task that the thread runs after task `at`; its blocks count from 0.
  AttentionTask next_of(int64_t at, int64_t parts, int64_t first, int64_t split) const {
    if (shares_ != nullptr) return shares_->after(at);
    if (all_heads_ || at + 1 >= pairs_ * tiles_ * parts) return {};
    AttentionTask next = task_of(at + 1, parts, split);
    next.block += first;
    return next;
  }
  AttentionTiles tiles_of(const AttentionTask& next) const {
    return one_tile(next.tile / tiles_, next.tile % tiles_);
  }
  AttentionPrefetch prefetch_of(const AttentionTask& next) const {
    if (next.tile < 0) return {};
    AttentionTiles tiles = tiles_of(next);
    tiles.use_decode_layout();
    return tiles.key_prefetch(next.block);
  }

  // Lays out a task's scratch. `partial` is for one block; `more` has the softmax state of the
  // other contiguous blocks, which are merged without outputs.
  void place(ScratchLayout& layout, AttentionTiles& tiles, AttentionState& partial,
             float*& more) const {
    tiles.place(layout);
    const int64_t rows = std::min(rows_, tile_rows_);
    partial = take_state(
        layout, std::max(tiles.value_size() * tile_rows_, rows * tiles.value_pitch()), tile_rows_);
    more = layout.take<float>(
        tiles.may_use_contiguous() ? 2 * (kContiguousBlocks - 1) * kernels_.lanes : 0);
  }
  // Initialises a state in the task that merges its first blocks, so that it is in that thread's
  // cache.
  void clear_state(const AttentionState& state) const {
    const int64_t rows = std::min(rows_, tile_rows_);
    clear(state, output_size_, pitch_of(rows));
  }
  // The maximum over tiles: the last one may have few enough rows for contiguous decode, which
  // needs more scratch.
  int64_t task_bytes() const {
    int64_t bytes = 0;
    for (const int64_t tile : {int64_t{0}, tiles_ - 1}) {
      AttentionTiles tiles = one_tile(0, tile);
      tiles.use_decode_layout();
      AttentionState partial;
      float* more = nullptr;
      ScratchLayout layout;
      place(layout, tiles, partial, more);
      bytes = std::max(bytes, layout.bytes());
    }
    return bytes;
  }

  // Computes blocks [first, first + count) of one tile of rows, into results[first_result] and on.
  // In decode with `state`, merges them into it, writes the rows after the last block, and returns
  // true.
  bool compute(int64_t at, int64_t first, int64_t count, const States& results,
               int64_t first_result, uint8_t* used, const AttentionState* state, bool last,
               const AttentionTask& next) const {
    AttentionTiles tiles = one_tile(at / tiles_, at % tiles_);
    tiles.use_decode_layout();
    const int64_t rows = std::min(tile_rows_, rows_ - at % tiles_ * tile_rows_);
    AttentionState partial;
    float* more = nullptr;
    ScratchLayout layout(thread_scratch(ScratchUse::task, task_bytes_));
    place(layout, tiles, partial, more);
    std::fill_n(used, count, uint8_t{0});
    const int64_t begin = std::max(first, tiles.first_block());
    const int64_t end = std::min(first + count, tiles.last_block());
    if (begin < end) tiles.load_queries();
    const bool merges = tiles.decode() && state != nullptr;
    if (merges && first == 0) clear_state(*state);
    bool next_set = false;  // next task's keys are set for prefetch
    for (int64_t block = begin; block < end; ++block) {
      if (const int64_t many = tiles.contiguous_count(block, end); many > 1) {
        std::array<AttentionState, kContiguousBlocks> run_states;
        for (int64_t i = 0; i < many; ++i) {
          float* top = i == 0 ? partial.largest : more + 2 * (i - 1) * kernels_.lanes;
          float* sum = i == 0 ? partial.sum : top + kernels_.lanes;
          run_states[static_cast<size_t>(i)] = merges ? AttentionState{nullptr, top, sum}
                                                      : results[first_result + block - first + i];
        }
        tiles.contiguous_keys(block, std::span(run_states).first(static_cast<size_t>(many)),
                              merges ? state : nullptr);
        for (int64_t i = 0; i < many; ++i) {
          if (i == many - kPrefetchBlocks) {
            if (merges && last) tiles.prefetch_results();
            if (next.tile >= 0) tiles_of(next).prefetch_queries();
          }
          tiles.contiguous_values(i);
        }
        if (!merges) std::fill_n(used + block - first, many, uint8_t{1});
        block += many - 1;
        continue;
      }
      if (!next_set) tiles.set_next(end, prefetch_of(next));
      next_set = true;
      tiles.load_block(block);
      const AttentionState result = merges ? partial : results[first_result + block - first];
      float* output = tiles.decode() ? result.output : partial.output;
      if (!tiles.run(0, {output, result.largest, result.sum})) continue;
      if (merges) {
        kernels_.merge_rows(*state, partial, tiles.value_pitch(), rows);
        continue;
      }
      if (!tiles.decode()) tiles.transpose_output(0, output, result.output);
      used[block - first] = 1;
    }
    if (merges && last) tiles.finish(0, *state, true);
    return merges;
  }

  // compute() for all heads of a batch row; `at` is its first tile. Head h has results and flags
  // from first_result + h * wave on, and state states[at + h].
  void compute_heads(int64_t at, int64_t first, int64_t count, const States& results,
                     int64_t first_result, int64_t wave, uint8_t* used, const States* states,
                     bool last) const {
    const int64_t row = at / p_.key_heads;
    PagedBlocks heads(p_, kernels_, x_, row, rows_, queries_ + row * query_floats());
    const int64_t end = first + count;
    for (int64_t h = 0; states != nullptr && first == 0 && h < p_.key_heads; ++h) {
      clear_state((*states)[at + h]);
    }
    for (int64_t block = first, many = 0; block < end; block += many) {
      const int64_t result = first_result + block - first;
      many = heads.block_count(block, end);
      if (many > 0 && heads.load(block, many)) {
        run_all_heads(heads, at, many, results, result, wave, used, states);
        continue;
      }
      while (many == 0 || (block + many < end && heads.block_count(block + many, end) == 0)) ++many;
      for (int64_t h = 0; h < p_.key_heads; ++h) {
        AttentionState state;
        if (states != nullptr) state = (*states)[at + h];
        AttentionTask next;
        if (h + 1 < p_.key_heads) next = {at + h + 1, block, many};
        compute(at + h, block, many, results, result + h * wave, used + result + h * wave,
                states != nullptr ? &state : nullptr, false, next);
      }
    }
    if (states == nullptr || !last) return;
    for (int64_t h = 0; h < p_.key_heads; ++h) {
      merge_wave(at + h, (*states)[at + h], results, 0, nullptr, 0, true);
    }
  }

  void run_all_heads(PagedBlocks& heads, int64_t at, int64_t count, const States& results,
                     int64_t first_result, int64_t wave, uint8_t* used,
                     const States* states) const {
    if (states != nullptr) {
      for (AttentionState& state : heads.states()) state = (*states)[at++];
      return heads.run(heads.states().data());
    }
    auto to = heads.results().begin();
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t h = 0; h < p_.key_heads; ++h) *to++ = results[first_result + h * wave + i];
    }
    heads.run(nullptr);
    for (int64_t h = 0; h < p_.key_heads; ++h) {
      std::fill_n(used + first_result + h * wave, count, uint8_t{1});
    }
  }

  // Merges `count` results; writes the rows after the last block.
  void merge_wave(int64_t at, const AttentionState& state, const States& results,
                  int64_t first_result, const uint8_t* used, int64_t count, bool last) const {
    AttentionTiles tiles = one_tile(at / tiles_, at % tiles_);
    const int64_t rows = std::min(tile_rows_, rows_ - at % tiles_ * tile_rows_);
    for (int64_t i = 0; i < count; ++i) {
      if (used[i] != 0)
        kernels_.merge_rows(state, results[first_result + i], tiles.value_pitch(), rows);
    }
    if (!last) return;
    const auto place = [&](ScratchLayout layout) {
      tiles.place(layout);
      return layout.bytes();
    };
    place(ScratchLayout(thread_scratch(ScratchUse::task, place(ScratchLayout()))));
    tiles.finish(0, state, true);
  }

  const AttentionProblem& p_;
  const AttentionKernels& kernels_;
  const AttentionArguments& x_;
  ThreadPool* pool_;
  const int64_t rows_;  // of a KV head
  const int64_t tile_rows_;
  const int64_t tiles_;     // of a KV head
  const int64_t pairs_;     // batch row and KV head
  bool all_heads_ = false;  // a task runs all KV heads of a batch row
  const float* queries_ = nullptr;
  const AttentionShares* shares_ = nullptr;  // null: tasks of uniform size
  // For the split cache:
  int64_t output_size_ = 0;  // elements of a state's output
  int64_t task_bytes_ = 0;   // scratch of a task
};

}  // namespace

std::string Attention::refuse(const AttentionProblem& p, Isa) {
  if (p.heads < 1 || p.key_heads < 1 || p.heads % p.key_heads != 0) {
    return fmt::format("{} heads are not a multiple of {} KV heads", p.heads, p.key_heads);
  }
  if (p.size < 1 || p.value_size < 1 || p.size > kMaxHeadSize || p.value_size > kMaxHeadSize) {
    return fmt::format("head sizes {} and {}, supported: 1 to {}", p.size, p.value_size,
                       kMaxHeadSize);
  }
  if (!is_float(p.query) || !is_float(p.result)) {
    return fmt::format("queries {} and results {}, supported: f32, bf16, f16", to_string(p.query),
                       to_string(p.result));
  }
  if (!is_float(p.cache) && p.cache != ElementType::i8) {
    return fmt::format("KV cache of {}, supported: f32, bf16, f16, i8", to_string(p.cache));
  }
  return {};
}

Attention::Attention(const AttentionProblem& problem, Isa isa)
    : problem_(problem),
      isa_(isa),
      bf16_(problem.use_bf16 && ((problem.cache == ElementType::bf16 && isa >= Isa::avx512_bf16) ||
                                 (problem.cache == ElementType::i8 && isa >= Isa::avx512_vnni))),
      kernels_(&kernels_of(isa, bf16_, problem.cache)) {}

void Attention::run(const AttentionArguments& arguments, ThreadPool* pool) const {
  if (arguments.batch == 0 || arguments.queries == 0) return;
  Run(problem_, *kernels_, arguments, pool).run();
}

}  // namespace lathe::cpu
