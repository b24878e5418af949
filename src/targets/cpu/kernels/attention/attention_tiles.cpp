// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kUnlimited = int64_t{1} << 40;  // larger than any position
constexpr int64_t kPrefetchRows = 8;              // rows to prefetch before they are read
constexpr int64_t kSampledPages = 32;             // a sample is enough
constexpr int64_t kLongPage = 128 << 10;          // bytes; the cost of a jump is negligible beyond
constexpr float kLog2E = std::numbers::log2e_v<float>;

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
// Types of queries, caches, results and biases.
int64_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return 4;
    case ElementType::bf16:
    case ElementType::f16:
    case ElementType::i16:
      return 2;
    case ElementType::i8:
      return 1;
    default:
      return info(type).bits / 8;
  }
}

int64_t right_of(const AttentionProblem& p) {
  if (p.causal) return 0;
  return p.right < 0 ? kUnlimited : std::min(p.right, kUnlimited);
}

// The output GEMM reads rows of full vectors.
int64_t value_pitch(int64_t value_size) { return round_up(value_size, 16); }

}  // namespace

AttentionTiles::AttentionTiles(const AttentionProblem& problem, const AttentionKernels& kernels,
                               const AttentionArguments& arguments, int64_t batch, int64_t key_head,
                               int64_t first_row, int64_t rows)
    : p_(problem),
      kernels_(kernels),
      x_(arguments),
      batch_(batch),
      key_head_(key_head),
      first_row_(first_row),
      rows_(rows),
      group_(problem.heads / problem.key_heads),
      tile_rows_(kernels.lanes * kernels.vectors),
      size_(round_up(problem.size, kernels.size_step)),
      value_size_(round_up(problem.value_size, kernels.value_step)),
      right_(right_of(problem)),
      element_(kernels.int16  ? ElementType::i16
               : kernels.bf16 ? ElementType::bf16
                              : ElementType::f32),
      element_bytes_(bytes_of(element_)),
      cache_bytes_(bytes_of(problem.cache)),
      length_(arguments.length[batch]) {
  if (x_.bias.data != nullptr) length_ = std::min(length_, x_.bias.keys);
  const double scale = p_.scale, cap = p_.softcap;
  block_.scale = static_cast<float>(scale * std::numbers::log2e);
  block_.softcap = static_cast<float>(cap * std::numbers::log2e);
  if (cap > 0) block_.inside_cap = static_cast<float>(scale / cap);
  block_.size = size_;
  block_.value_size = value_size_;
  block_.key_columns = problem.size;
  block_.value_columns = problem.value_size;
}

int64_t AttentionTiles::value_pitch() const { return cpu::value_pitch(value_size_); }

int64_t AttentionTiles::tile_count(int64_t tile) const {
  return std::min(tile_rows_, rows_ - tile * tile_rows_);
}

int64_t AttentionTiles::pitch(int64_t tile) const {
  return round_up(tile_count(tile), kernels_.lanes);
}

int64_t AttentionTiles::lowest(int64_t row) const {
  if (p_.left < 0) return 0;
  return std::max<int64_t>(0, x_.first[batch_] + query(row) - std::min(p_.left, kUnlimited));
}

int64_t AttentionTiles::highest(int64_t row) const {
  return std::min(length_ - 1, x_.first[batch_] + query(row) + right_);
}

int64_t AttentionTiles::last_block() const {
  const int64_t key = highest(rows_ - 1);
  return key < 0 ? 0 : key / kKeyBlock + 1;
}

void AttentionTiles::place(ScratchLayout& layout) {
  const int64_t units = size_ * element_bytes_ / 4;
  // Padded for the last vector of a group's last unit.
  queries_ = layout.take<float>(round_up(rows_, kernels_.lanes) * units + kernels_.lanes);
  query_scales_ = layout.take<float>(kernels_.int16 ? round_up(rows_, kernels_.lanes) : 0);
  rows_scratch_ = layout.take<float>(tile_rows_ * std::max(size_, value_pitch()));
  keys_scratch_ = layout.take<std::byte>(kKeyBlock * size_ * element_bytes_);
  block_.wide_keys = keys_scratch_;
  values_rows_ = layout.take<std::byte>(kKeyBlock * value_size_ * element_bytes_);
  values_scratch_ = layout.take<std::byte>(kKeyBlock * value_size_ * element_bytes_);
  const int64_t contiguous = may_use_contiguous() ? kKeyBlock * rows_ : 0;
  scores_ = layout.take<float>(std::max(kKeyBlock * tile_rows_, 2 * contiguous));
  weights_ = layout.take<float>(
      std::max(kKeyBlock * tile_rows_ / 2, kContiguousBlocks * contiguous * element_bytes_ / 4));
  factors_ = layout.take<float>(may_use_contiguous() ? 2 * kContiguousFactors : 0);
  bias_ = layout.take<float>(has_bias() ? kKeyBlock * tile_rows_ : 0);
  bias_rows_ = layout.take<float>(has_bias() ? kKeyBlock * tile_rows_ : 0);
  limits_ = layout.take<float>(2 * tile_rows_);
  scales_ = layout.take<float>(2 * kKeyBlock);
}

std::byte* AttentionTiles::row_of(const AttentionRows& rows, ElementType type, int64_t row) const {
  const int64_t at = batch_ * rows.batch + head(row) * rows.head + query(row) * rows.row;
  return static_cast<std::byte*>(rows.data) + at * bytes_of(type);
}

void AttentionTiles::prefetch_row(const AttentionRows& rows, ElementType type, int64_t row,
                                  int64_t size) const {
  if (row >= rows_) return;
  const std::byte* at = row_of(rows, type, row);
  for (int64_t i = 0; i < size * bytes_of(type); i += 64) __builtin_prefetch(at + i);
}

// Rows of a head lie a stride apart, in the form that the kernels transpose.
bool AttentionTiles::reads_queries_in_place() const {
  return !decode() && !kernels_.int16 && group_ == 1 && p_.query == element_ && size_ == p_.size &&
         x_.q.row * element_bytes_ % 4 == 0;
}

void AttentionTiles::load_queries() {
  const int64_t units = size_ * element_bytes_ / 4;
  const bool in_place = reads_queries_in_place();
  for (int64_t tile = 0; tile < tiles(); ++tile) {
    const int64_t count = tile_count(tile);
    if (in_place) {
      const std::byte* rows = row_of(x_.q, p_.query, tile * tile_rows_);
      kernels_.transpose(reinterpret_cast<const float*>(rows), x_.q.row * element_bytes_ / 4, count,
                         units, queries_ + tile * tile_rows_ * units, pitch(tile));
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = tile * tile_rows_ + i;
      prefetch_row(x_.q, p_.query, row + kPrefetchRows, p_.size);
      auto* to = reinterpret_cast<std::byte*>(rows_scratch_ + i * units);
      if (kernels_.int16) {
        convert(ElementType::f32, scores_, p_.query, row_of(x_.q, p_.query, row), p_.size);
        query_scales_[row] = kernels_.quantise(scores_, p_.size, size_, decode(), to);
        continue;
      }
      convert(element_, to, p_.query, row_of(x_.q, p_.query, row), p_.size);
      std::memset(to + p_.size * element_bytes_, 0,
                  static_cast<size_t>((size_ - p_.size) * element_bytes_));
    }
    if (decode() && kernels_.decode_pitch > 0) {
      const int64_t group = kernels_.decode_pitch;
      for (int64_t i = 0; i < count; i += group) {
        kernels_.transpose(rows_scratch_ + i * units, units, std::min(group, count - i), units,
                           queries_ + i * units, group);
      }
      continue;
    }
    kernels_.transpose(rows_scratch_, units, count, units, queries_ + tile * tile_rows_ * units,
                       pitch(tile));
  }
}

const std::byte* AttentionTiles::key_row(const AttentionCache& cache, int64_t key) const {
  int64_t outer = batch_, row = key;
  if (cache.is_paged()) {
    const int64_t entry = batch_ * cache.table_stride + (key >> cache.page_shift);
    row = key & ((int64_t{1} << cache.page_shift) - 1);
    if (cache.pages != nullptr) {
      const std::byte* page = cache.pages[entry];
      if (page == nullptr) return nullptr;
      return page + cache.page_offset + (key_head_ * cache.head + row * cache.row) * cache_bytes_;
    }
    outer = cache.table[entry];
  }
  const int64_t at = outer * cache.batch + key_head_ * cache.head + row * cache.row;
  return static_cast<const std::byte*>(cache.data) + at * cache_bytes_;
}

// Addresses of the segments of `keys` keys; false if a segment has no uniform stride or no page.
bool AttentionTiles::find_segments(const AttentionCache& cache, int64_t begin, int64_t keys,
                                   const std::byte** to) const {
  const bool scattered = cache.is_paged() && int64_t{1} << cache.page_shift < kKeyBlock;
  if (scattered && int64_t{1} << cache.page_shift < kSegment) return false;
  if (!scattered) {  // a page has full blocks
    to[0] = key_row(cache, begin);
    if (to[0] == nullptr) return false;
    const int64_t step = kSegment * cache.row * cache_bytes_;
    for (int64_t i = 1; i * kSegment < keys; ++i) to[i] = to[i - 1] + step;
    return true;
  }
  for (int64_t i = 0; i * kSegment < keys; ++i) {
    to[i] = key_row(cache, begin + i * kSegment);
    if (to[i] == nullptr) return false;
  }
  return true;
}

// True if the block's rows have a uniform stride.
bool AttentionTiles::has_uniform_stride(const AttentionCache& cache) const {
  return !cache.is_paged() || keys_ <= int64_t{1} << cache.page_shift;
}

const float* AttentionTiles::scales_of(const AttentionCache& cache, float* to,
                                       int64_t& step) const {
  if (p_.cache != ElementType::i8 || cache.scales == nullptr) return nullptr;
  if (cache.table == nullptr) {
    step = cache.scale_row;
    return cache.scales + batch_ * cache.scale_batch + key_head_ * cache.scale_head +
           begin_ * cache.scale_row;
  }
  step = 1;
  const int64_t rows = int64_t{1} << cache.page_shift;
  for (int64_t i = 0; i < keys_;) {
    const int64_t key = begin_ + i, inside = key & (rows - 1);
    const int64_t page = cache.table[batch_ * cache.table_stride + (key >> cache.page_shift)];
    const float* from = cache.scales + page * cache.scale_batch + key_head_ * cache.scale_head +
                        inside * cache.scale_row;
    const int64_t end = std::min(keys_, i + rows - inside);
    if (cache.scale_row == 1) {
      std::copy_n(from, end - i, to + i);
      i = end;
    }
    for (; i < end; ++i, from += cache.scale_row) to[i] = *from;
  }
  return to;
}

// Copies the block's rows in the compute type, `pitch` elements apart, with zeros after `size`.
void AttentionTiles::load_rows(const AttentionCache& cache, int64_t size, int64_t pitch,
                               std::byte* to) const {
  // int16 decode kernels read int8.
  const bool raw = kernels_.int16 && decode();
  const int64_t element = raw ? 1 : element_bytes_, bytes = size * element;
  const int64_t page = cache.is_paged() ? int64_t{1} << cache.page_shift : kKeyBlock;
  const bool contiguous = (raw || p_.cache == element_) && pitch == size && cache.row == size;
  for (int64_t i = 0; i < keys_;) {
    // Rows of one page: one copy if contiguous, else row by row.
    const int64_t count = std::min(keys_ - i, page - (begin_ + i) % page);
    const std::byte* row = key_row(cache, begin_ + i);
    i += count;
    if (contiguous && row != nullptr) {
      std::memcpy(to, row, static_cast<size_t>(count * bytes));
      to += count * bytes;
      continue;
    }
    for (int64_t r = 0; r < count; ++r, to += pitch * element) {
      if (row == nullptr) {  // outside every window
        std::memset(to, 0, static_cast<size_t>(bytes));
      } else if (raw) {
        std::memcpy(to, row + r * cache.row, static_cast<size_t>(bytes));
      } else {
        kernels_.widen(p_.cache, row + r * cache.row * bytes_of(p_.cache), size, to);
      }
      std::memset(to + bytes, 0, static_cast<size_t>((pitch - size) * element));
    }
  }
}

// Prefetch of the rows of a block that some query attends to, if their stride is uniform.
// `segments` passes known segments.
AttentionPrefetch AttentionTiles::row_prefetch(const AttentionCache& cache, int64_t size,
                                               int64_t block, int64_t calls,
                                               const std::byte* const* segments) const {
  AttentionPrefetch to;
  const int64_t begin = block * kKeyBlock;
  const int64_t rows = std::min(kKeyBlock, highest(rows_ - 1) + 1 - begin);
  const int64_t page = int64_t{1} << cache.page_shift;
  const bool scattered = cache.is_paged() && page < kKeyBlock;
  if (rows <= 0 || (scattered && (!decode() || page < kSegment))) return to;
  const int64_t bytes = cache_bytes_;
  to.row = key_row(cache, begin);
  if (to.row == nullptr) return to;
  to.rows = rows;
  to.stride = cache.row * bytes;
  to.bytes = size * bytes;
  if (decode() && to.stride == to.bytes) {
    bool found = segments != nullptr;
    if (found) std::copy_n(segments, (rows - 1) / kSegment + 1, to.contiguous);
    found = found || find_segments(cache, begin, rows, to.contiguous);
    if (found) to.contiguous_bytes = to.bytes;
    if (found && kernels_.decode_prefetches) return to;  // the decode kernel prefetches them
  }
  if (scattered) {
    to.in_segment = to.length = page;
    for (int64_t i = 1; i * page < rows; ++i) {
      to.segments[i - 1] = key_row(cache, begin + i * page);
    }
  }
  // Contiguous rows count as fewer long ones.
  const int64_t bytes_in_row = scattered ? page * to.bytes : to.bytes * rows;
  if (to.stride == to.bytes && bytes_in_row % kPrefetchBytes == 0 &&
      to.bytes * rows % kPrefetchBytes == 0) {
    if (scattered) to.in_segment = to.length = bytes_in_row / kPrefetchBytes;
    to.rows = to.bytes * rows / kPrefetchBytes;
    to.stride = to.bytes = kPrefetchBytes;
  }
  to.step = (to.rows - 1) / calls + 1;
  return to;
}

AttentionPrefetch AttentionTiles::key_prefetch(int64_t block) const {
  // About one call per step of the GEMM.
  const int64_t calls = decode() ? kernels_.value_prefetches : kKeyBlock / 16 * tiles();
  return row_prefetch(x_.k, p_.size, block, calls);
}

void AttentionTiles::prefetch_block(int64_t block) const {
  const int64_t begin = block * kKeyBlock;
  const int64_t rows = std::min(kKeyBlock, highest(rows_ - 1) + 1 - begin);
  for (const auto& [cache, size] : {std::pair(&x_.k, p_.size), std::pair(&x_.v, p_.value_size)}) {
    for (int64_t i = 0; i < rows; ++i) {
      const std::byte* row = key_row(*cache, begin + i);
      if (row == nullptr) continue;
      for (int64_t at = 0; at < size * cache_bytes_; at += 64) __builtin_prefetch(row + at);
    }
  }
}

void AttentionTiles::load_block(int64_t block) {
  begin_ = block * kKeyBlock;
  keys_ = std::min(kKeyBlock, length_ - begin_);
  const int64_t stride = cache_bytes_;
  const bool native = p_.cache == element_;
  const bool bytes = decode() && kernels_.decode_reads_int8 && p_.cache == ElementType::i8;
  // Pages have padding up to key_step; the softmax masks its keys.
  const bool room = keys_ % kernels_.key_step == 0 || (decode() && x_.k.is_paged());
  const bool same_layout = native && size_ == p_.size && room;
  const auto find = [&](const AttentionCache& cache, const std::byte** segments) {
    return decode() ? find_segments(cache, begin_, keys_, segments) : has_uniform_stride(cache);
  };
  const auto spread = [&](const void* rows, int64_t distance, const std::byte** segments) {
    for (int64_t i = 0; i < kSegments; ++i) {
      segments[i] = static_cast<const std::byte*>(rows) + i * kSegment * distance;
    }
  };
  // Segments known from the prefetch.
  const bool found = next_block_ == block && next_k_.contiguous_bytes > 0;
  if (found) std::copy_n(next_k_.contiguous, kSegments, block_.k_segments);
  const bool keys_in_place = (bytes || same_layout) && (found || find(x_.k, block_.k_segments));
  const bool raw = bytes && kernels_.int16;
  const int64_t element = raw ? 1 : element_bytes_;
  block_.k_int8 = bytes && (keys_in_place || raw);
  if (keys_in_place) {
    block_.k = key_row(x_.k, begin_);
    block_.k_stride = x_.k.row * stride;
  } else {
    load_rows(x_.k, p_.size, size_, keys_scratch_);
    const int64_t padding = round_up(keys_, kernels_.key_step) - keys_;
    std::memset(keys_scratch_ + keys_ * size_ * element, 0,
                static_cast<size_t>(padding * size_ * element));
    block_.k = keys_scratch_;
    block_.k_stride = size_ * element;
    spread(keys_scratch_, block_.k_stride, block_.k_segments);
  }
  const bool in_place = (bytes || native) && find(x_.v, block_.v_segments);
  block_.v_int8 = bytes && (in_place || raw);
  if (in_place) {
    block_.v = key_row(x_.v, begin_);
    block_.v_stride = x_.v.row * stride;
  } else {
    load_rows(x_.v, p_.value_size, p_.value_size, values_rows_);
    block_.v = values_rows_;
    block_.v_stride = p_.value_size * element;
    spread(values_rows_, block_.v_stride, block_.v_segments);
  }
  if (kernels_.stage_values != nullptr && !decode()) {
    kernels_.stage_values(static_cast<const Bf16*>(block_.v), block_.v_stride, keys_, p_.value_size,
                          values_scratch_);
    block_.v = values_scratch_;
    block_.v_stride = kernels_.value_stride(value_size_);
  }
  const bool last = block + 1 == end_;
  next_k_ = last ? next_task_ : key_prefetch(block + 1);
  next_block_ = last ? -1 : block + 1;
  if (decode()) {
    // Values in place are read after the keys of the same block.
    next_v_ =
        row_prefetch(x_.v, p_.value_size, in_place ? block : block + 1,
                     kernels_.score_prefetches(size_), in_place ? block_.v_segments : nullptr);
  } else {
    const int64_t calls = std::clamp<int64_t>(p_.value_size / 32, 1, 8);
    next_v_ = row_prefetch(x_.v, p_.value_size, block + 1, calls * tiles());
  }
  block_.key_bytes = p_.size * stride;
  block_.value_bytes = p_.value_size * stride;
  block_.k_contiguous = keys_in_place && block_.k_stride == block_.key_bytes;
  block_.v_contiguous = in_place && block_.v_stride == block_.value_bytes;
  block_.next_k = &next_k_;
  block_.next_v = &next_v_;
  block_.k_scales = scales_of(x_.k, scales_, block_.k_scale_step);
  block_.v_scales = scales_of(x_.v, scales_ + kKeyBlock, block_.v_scale_step);
}

void AttentionTiles::slope_row(int64_t row, int64_t keys, float* to) const {
  const float slope = x_.slopes[head(row)];
  // Integers below 2^24 are exact in f32.
  const auto first = static_cast<float>(begin_ - x_.first[batch_] - query(row));
  for (int32_t key = 0; key < keys; ++key) to[key] = slope * (first + static_cast<float>(key));
}

// Bias of a tile and the first `keys` keys of the block: [keys][pitch].
namespace {

// In units of log2 the lowest finite biases would be -infinity, which masks a key even where all
// keys have it.
void raise_lowest(float* bias, int64_t count) {
  constexpr float kLowest = -1.5e38F;
  for (int64_t i = 0; i < count; ++i) {
    const bool is_low = bias[i] < kLowest && bias[i] != -HUGE_VALF;
    bias[i] = is_low ? kLowest : bias[i];
  }
}

}  // namespace

const float* AttentionTiles::load_bias(int64_t tile, int64_t keys, int64_t& pitch) {
  const AttentionBias& bias = x_.bias;
  const bool sloped = x_.slopes != nullptr;
  const bool shared = !sloped && bias.row == 0 && (bias.head == 0 || group_ == 1);
  const int64_t count = shared ? 1 : tile_count(tile);
  const int64_t bytes = bytes_of(bias.type);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = tile * tile_rows_ + i;
    if (sloped) {
      slope_row(row, keys, bias_rows_ + i * kKeyBlock);
      continue;
    }
    const int64_t at = batch_ * bias.batch + head(row) * bias.head + query(row) * bias.row;
    const std::byte* from =
        static_cast<const std::byte*>(bias.data) + (at + begin_ * bias.key) * bytes;
    float* to = bias_rows_ + i * kKeyBlock;
    if (bias.type == ElementType::boolean) {
      for (int64_t key = 0; key < keys; ++key) {
        to[key] = from[key * bias.key] != std::byte{0} ? 0 : -HUGE_VALF;
      }
    } else if (bias.key == 1) {
      convert(ElementType::f32, to, bias.type, from, keys);
    } else {
      for (int64_t key = 0; key < keys; ++key) {
        convert(ElementType::f32, to + key, bias.type, from + key * bias.key * bytes, 1);
      }
    }
    raise_lowest(to, keys);
  }
  if (decode()) {
    pitch = shared ? 0 : kKeyBlock;
    return bias_rows_;
  }
  pitch = shared ? 1 : this->pitch(tile);
  if (shared) {  // no bias where the mask lets all keys pass
    const bool none = std::all_of(bias_rows_, bias_rows_ + keys, [](float x) { return x == 0; });
    return none ? nullptr : bias_rows_;
  }
  kernels_.transpose(bias_rows_, kKeyBlock, count, keys, bias_, pitch);
  return bias_;
}

bool AttentionTiles::run(int64_t tile, const AttentionState& result) {
  const int64_t count = tile_count(tile);
  const int64_t first = tile * tile_rows_, last = first + count - 1;
  const int64_t keys = std::min(keys_, highest(last) + 1 - begin_);
  if (keys <= 0 || lowest(first) >= begin_ + keys_) return false;
  AttentionBlock& b = block_;
  b.pitch = pitch(tile);
  b.q = queries_ + first * (size_ * element_bytes_ / 4);
  b.q_scales = query_scales_ + first;
  b.keys = keys;
  b.lowest = b.highest = nullptr;
  if (highest(first) < begin_ + keys - 1 || lowest(last) > begin_) {
    const auto relative = [&](int64_t key) {
      return static_cast<float>(std::clamp<int64_t>(key - begin_, -kKeyBlock, 2 * kKeyBlock));
    };
    for (int64_t i = 0; i < b.pitch; ++i) {
      limits_[i] = i < count ? relative(lowest(first + i)) : 0;
      limits_[tile_rows_ + i] = i < count ? relative(highest(first + i)) : kKeyBlock;
    }
    b.lowest = limits_;
    b.highest = limits_ + tile_rows_;
  }
  b.bias = nullptr;
  if (has_bias()) b.bias = load_bias(tile, keys, b.bias_pitch);
  b.scores = scores_;
  b.weights = weights_;
  b.output = result.output;
  b.largest = result.largest;
  b.sum = result.sum;
  if (decode()) {
    b.output_pitch = value_pitch();
    kernels_.decode(b, count);
  } else {
    kernels_.prefill(b);
  }
  return true;
}

// True if full blocks of decode rows can run without a block loop, in any layout.
bool AttentionTiles::blocks_fit() const {
  return host_prefers_hardware_prefetch() && p_.cache == element_ && !has_bias() &&
         p_.softcap <= 0 && block_.scale > 0 && x_.k.row == p_.size && x_.v.row == p_.value_size &&
         kernels_.contiguous_fits(p_.size * cache_bytes_, p_.value_size, rows_);
}

bool AttentionTiles::may_use_contiguous() const {
  return kernels_.contiguous_keys != nullptr && !x_.k.is_paged() && !x_.v.is_paged() &&
         blocks_fit();
}

bool AttentionTiles::may_use_paged() const {
  // In pages longer than a block, a head's keys are contiguous.
  const int64_t rows = int64_t{1} << x_.k.page_shift;
  return kernels_.paged_decode != nullptr && x_.k.is_paged() && x_.v.is_paged() &&
         x_.k.page_shift == x_.v.page_shift && rows >= kSegment && rows <= kKeyBlock &&
         blocks_fit();
}

// Blocks from `block` on, below `end`, whose keys all rows attend to.
int64_t AttentionTiles::full_blocks(int64_t block, int64_t end) const {
  if (lowest(rows_ - 1) > block * kKeyBlock) return 0;
  const int64_t count = (highest(0) + 1) / kKeyBlock;
  return std::clamp<int64_t>(std::min(count, end) - block, 0, kContiguousBlocks);
}

int64_t AttentionTiles::contiguous_count(int64_t block, int64_t end) const {
  return decode() && may_use_contiguous() ? full_blocks(block, end) : 0;
}

int64_t AttentionTiles::paged_count(int64_t block, int64_t end) const {
  return may_use_paged() ? full_blocks(block, end) : 0;
}

void AttentionTiles::describe(PagedDecode& call) const {
  call.segments = (int64_t{1} << x_.k.page_shift) / kSegment;
  call.k_head = x_.k.head * cache_bytes_;
  call.v_head = x_.v.head * cache_bytes_;
  call.key_bytes = p_.size * cache_bytes_;
  call.value_size = p_.value_size;
  call.scale = block_.scale;
  call.output_pitch = value_pitch();
}

bool AttentionTiles::pages_consecutive() const {
  const int64_t rows = int64_t{1} << x_.k.page_shift;
  const auto follow = [&](const AttentionCache& cache) {
    const int64_t bytes = p_.key_heads * cache.head * cache_bytes_;
    if (bytes >= kLongPage) return true;
    const int64_t begin = lowest(0) / rows * rows;  // earlier pages may be null
    const std::byte* before = key_row(cache, begin);
    const int64_t end = std::min(length_ / rows * rows, begin + kSampledPages * rows);
    for (int64_t key = begin + rows; key < end; key += rows, before += bytes) {
      if (before == nullptr || key_row(cache, key) != before + bytes) return false;
    }
    return true;
  };
  return follow(x_.k) && follow(x_.v);
}

bool AttentionTiles::find_pages(int64_t block, const PagedDecode& call, const std::byte** k,
                                const std::byte** v) const {
  const int64_t begin = block * kKeyBlock, end = begin + call.blocks * kKeyBlock;
  for (int64_t key = begin; key < end; key += call.segments * kSegment, ++k, ++v) {
    *k = key_row(x_.k, key);
    *v = key_row(x_.v, key);
    if (*k == nullptr || *v == nullptr) return false;
  }
  return true;
}

void AttentionTiles::contiguous_keys(int64_t block, std::span<const AttentionState> results,
                                     const AttentionState* merged) {
  contiguous_.q = queries_;
  contiguous_.k = key_row(x_.k, block * kKeyBlock);
  contiguous_.v = key_row(x_.v, block * kKeyBlock);
  contiguous_.key_bytes = p_.size * cache_bytes_;
  contiguous_.value_bytes = p_.value_size * cache_bytes_;
  contiguous_.value_size = p_.value_size;
  contiguous_.blocks = static_cast<int64_t>(results.size());
  contiguous_.scale = block_.scale;
  contiguous_.scores = scores_;
  contiguous_.weights = weights_;
  contiguous_.factors = factors_;
  contiguous_.merged = merged;
  contiguous_.output_pitch = value_pitch();
  contiguous_.results = results.data();
  kernels_.contiguous_keys(contiguous_, rows_);
}

void AttentionTiles::transpose_output(int64_t tile, const float* output, float* to) const {
  kernels_.transpose(output, pitch(tile), value_size_, tile_count(tile), to, value_pitch());
}

void AttentionTiles::finish(int64_t tile, const AttentionState& state, bool by_rows) {
  const int64_t count = tile_count(tile), rows = pitch(tile);
  float* factors = limits_;
  float* sinks = nullptr;
  if (x_.sinks != nullptr) {
    sinks = limits_ + tile_rows_;
    for (int64_t i = 0; i < rows; ++i) {
      sinks[i] = i < count ? x_.sinks[head(tile * tile_rows_ + i)] * kLog2E : 0;
    }
  }
  kernels_.factors(state.largest, state.sum, sinks, rows, factors);
  float* out = state.output;
  if (!by_rows) {
    transpose_output(tile, state.output, rows_scratch_);
    out = rows_scratch_;
  }
  const int64_t first = tile * tile_rows_;
  const int64_t stride = x_.y.row * bytes_of(p_.result);
  const int64_t bytes = p_.value_size * bytes_of(p_.result);
  std::byte* to = row_of(x_.y, p_.result, first);
  for (int64_t i = 0; i < count; ++i, out += value_pitch(), to += stride) {
    if (factors[i] == 0) std::fill(out, out + p_.value_size, 0.0F);
    if (group_ > 1) {
      prefetch_row(x_.y, p_.result, first + i + kPrefetchRows, p_.value_size);
      to = row_of(x_.y, p_.result, first + i);
    } else if (i + kPrefetchRows < count) {
      const std::byte* ahead = to + kPrefetchRows * stride;
      for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(ahead + at);
    }
    kernels_.scale_row(p_.result, out, p_.value_size, factors[i], to);
  }
}

}  // namespace lathe::cpu
