// SPDX-License-Identifier: MIT
// Decode of several full blocks by one call of a kernel.
#include <algorithm>

#include "targets/cpu/kernels/attention/attention_tiles.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kSampledPages = 32;     // a sample is enough
constexpr int64_t kLongPage = 128 << 10;  // bytes; the cost of a jump is negligible beyond

}  // namespace

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

}  // namespace lathe::cpu
