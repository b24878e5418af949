// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kUnlimited = int64_t{1} << 40;  // larger than any position
constexpr int64_t kPrefetchRows = 8;              // rows to prefetch before they are read
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
  const int64_t key = last_key();
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

void AttentionTiles::slope_row(int64_t row, int64_t keys, float* to) const {
  const float slope = x_.slopes[head(row)];
  // Integers below 2^24 are exact in f32.
  const auto first = static_cast<float>(begin_ - x_.first[batch_] - query(row));
  for (int32_t key = 0; key < keys; ++key) to[key] = slope * (first + static_cast<float>(key));
}

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

// Bias of a tile and the first `keys` keys of the block: [keys][pitch].
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
