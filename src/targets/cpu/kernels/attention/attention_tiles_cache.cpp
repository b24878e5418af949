// SPDX-License-Identifier: MIT
// The rows of a block of keys in the caches: where they lie, copies of them, what to prefetch.
#include <algorithm>
#include <cstring>

#include "targets/cpu/kernels/attention/attention_tiles.h"

namespace lathe::cpu {
namespace {

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

}  // namespace

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
        kernels_.widen(p_.cache, row + r * cache.row * cache_bytes_, size, to);
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

}  // namespace lathe::cpu
