// SPDX-License-Identifier: MIT
#include "tests/kernels/support/attention_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tensor/convert.h"

namespace lathe::cpu::test {
namespace {

constexpr int64_t kPageOffset = 32;
constexpr double kMasked = -std::numeric_limits<double>::infinity();

}  // namespace

int64_t AttentionCase::pick(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

// Fast, approximately normal: the sum of four 16-bit values.
double AttentionCase::normal() {
  double sum = 0;
  for (int i = 0; i < 2; ++i) {
    const auto bits = static_cast<uint32_t>(random_());
    sum += static_cast<double>(bits & 0xFFFF) + static_cast<double>(bits >> 16);
  }
  return (sum - 2 * 65535.0) / 37837;
}

// Random values, rounded to the type.
std::vector<double> AttentionCase::values(ElementType type, int64_t count, double spread) {
  std::vector<double> out(static_cast<size_t>(count));
  for (double& x : out) {
    x = normal() * (type == ElementType::i8 ? 40 : spread);
    if (type == ElementType::i8) x = std::clamp(std::nearbyint(x), -128.0, 127.0);
  }
  std::vector<std::byte> rounded(static_cast<size_t>(bytes_for(type, count)));
  convert(type, rounded.data(), ElementType::f64, out.data(), count);
  convert(ElementType::f64, out.data(), type, rounded.data(), count);
  return out;
}

AttentionCase::AttentionCase(uint32_t seed, Extent extent) : random_(seed * 7919 + 17) {
  AttentionProblem& p = problem;
  p.key_heads = pick(1, 3);
  p.heads = p.key_heads * pick(1, chance(20) ? 9 : 4);
  const bool small = extent == Extent::small;
  p.size = chance(small ? 20 : 50) ? 64 : pick(1, small && chance(80) ? 36 : 100);
  p.value_size = chance(60) ? p.size : pick(1, small ? 40 : 80);
  if (small && seed % 61 == 40) p.size = 600;  // too large for integer accumulators
  constexpr ElementType kTypes[] = {ElementType::f32, ElementType::bf16, ElementType::f16};
  p.query = kTypes[pick(0, 2)];
  p.result = kTypes[pick(0, 2)];
  p.cache = chance(20) ? ElementType::i8 : kTypes[pick(0, 2)];
  p.use_bf16 = p.query == ElementType::bf16 || chance(30);
  if (p.use_bf16) p.query = ElementType::bf16;  // f32 queries would be rounded
  p.scale = chance(10) ? -0.3 : 1 / std::sqrt(static_cast<double>(p.size));
  if (chance(20)) p.softcap = 3;
  p.causal = chance(50);
  if (chance(25)) p.left = pick(0, 150);
  if (chance(15)) p.right = pick(0, 60);
  batch = pick(1, small ? 2 : 3);
  queries = extent == Extent::large ? pick(20, 90) : chance(40) ? 1 : pick(1, small ? 9 : 70);
  keys = extent == Extent::large ? pick(300, 600) : pick(1, small && chance(80) ? 50 : 300);
  for (int64_t b = 0; b < batch; ++b) {
    length.push_back(chance(30) ? keys : pick(0, keys));
    first.push_back(chance(70) ? length.back() - queries : pick(-3, keys));
  }
  const int64_t pitch = p.size + pick(0, 5);
  q_rows_ = {nullptr, p.heads * queries * pitch, queries * pitch, pitch};
  if (chance(50)) q_rows_ = {nullptr, p.heads * queries * pitch, pitch, p.heads * pitch};
  q_ = std::make_unique<Guarded>(p.query, batch * p.heads * queries * pitch);
  q_values_ = values(p.query, q_->count(), 2);
  const auto& q = q_values_;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t at = b * q_rows_.batch + h * q_rows_.head + i * q_rows_.row;
        for (int64_t d = 0; d < p.size; ++d) q_->set(at + d, q[static_cast<size_t>(at + d)]);
      }
    }
  }
  const int64_t rows = batch * p.key_heads * keys;
  k_ = values(p.cache, rows * p.size, 1);
  v_ = values(p.cache, rows * p.value_size, 1);
  const bool scaled = p.cache == ElementType::i8;
  const float sign = seed % 7 == 3 ? -1 : 1;
  for (int64_t i = 0; i < rows; ++i) {
    k_scales_.push_back(scaled ? static_cast<float>(pick(10, 40)) / 1000 : 1);
    v_scales_.push_back(scaled ? sign * static_cast<float>(pick(10, 40)) / 1000 : 1);
  }
  y_pitch_ = p.value_size + pick(0, 3);
  y = std::make_unique<Guarded>(p.result, batch * p.heads * queries * y_pitch_);
  if (chance(40)) make_bias();
  if (chance(20)) {
    for (int64_t h = 0; h < p.heads; ++h) sinks_.push_back(static_cast<float>(pick(-3, 6)));
  }
  lay_out(chance(30) ? static_cast<int>(pick(0, 8)) : -1);
}

void AttentionCase::make_bias() {
  constexpr ElementType kTypes[] = {ElementType::f32, ElementType::bf16, ElementType::f16,
                                    ElementType::boolean};
  const ElementType type = kTypes[pick(0, 3)];
  bias_.keys = chance(20) ? pick(0, keys) : keys;
  const int64_t step = chance(20) ? 2 : 1;
  const int64_t row = bias_.keys * step;
  const bool rows = chance(50), heads = chance(30), batches = chance(50);
  const int64_t all_rows = rows ? queries : 1, all_heads = heads ? problem.heads : 1;
  bias_.type = type;
  bias_.key = step;
  bias_.row = rows ? row : 0;
  bias_.head = heads ? row * all_rows : 0;
  bias_.batch = batches ? row * all_rows * all_heads : 0;
  const int64_t count = row * all_rows * all_heads * (batches ? batch : 1);
  bias_memory_ = std::make_unique<Guarded>(type, count);
  for (int64_t i = 0; i < count; i += step) {
    const double x = static_cast<double>(pick(-16, 16)) / 8;
    bias_memory_->set(i, type == ElementType::boolean ? (x < 1) : (chance(15) ? kMasked : x));
  }
  bias_.data = bias_memory_->data();
}

AttentionCache AttentionCase::place(const std::vector<double>& from,
                                    const std::vector<float>& scales, int64_t size,
                                    std::unique_ptr<Guarded>& to, std::vector<float>& placed_scales,
                                    std::vector<const std::byte*>& pages) {
  const int64_t heads = problem.key_heads;
  const int64_t pitch = size + pick(0, 1) * pick(0, 3);
  const int64_t room = shift_ < 0 ? keys : int64_t{1} << shift_;
  const int64_t outer = shift_ < 0 ? batch : batch * table_stride_;
  AttentionCache cache;
  cache.batch = heads * room * pitch;
  cache.head = room * pitch;
  cache.row = pitch;
  if (chance(40)) {  // keys before heads
    cache.head = pitch;
    cache.row = heads * pitch;
  }
  cache.scale_batch = heads * room;
  cache.scale_head = room;
  cache.scale_row = 1;
  to = std::make_unique<Guarded>(problem.cache, outer * cache.batch);
  placed_scales.assign(static_cast<size_t>(outer * cache.scale_batch), NAN);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t key = 0; key < std::min(keys, length[static_cast<size_t>(b)]); ++key) {
      const int64_t page =
          shift_ < 0 ? b : table_[static_cast<size_t>(b * table_stride_ + (key >> shift_))];
      const int64_t row = shift_ < 0 ? key : key & (room - 1);
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t source = (b * heads + h) * keys + key;
        for (int64_t d = 0; d < size; ++d) {
          to->set(page * cache.batch + h * cache.head + row * cache.row + d,
                  from[static_cast<size_t>(source * size + d)]);
        }
        placed_scales[static_cast<size_t>(page * cache.scale_batch + h * room + row)] =
            scales[static_cast<size_t>(source)];
      }
    }
  }
  cache.data = to->data();
  cache.scales = placed_scales.data();
  if (shift_ >= 0) {
    cache.table = table_.data();
    cache.table_stride = table_stride_;
    cache.page_shift = shift_;
  }
  if (shift_ >= 0 && problem.cache != ElementType::i8 && chance(50)) {
    pages.clear();
    for (const int32_t page : table_) {
      pages.push_back(to->data() + bytes_for(problem.cache, page * cache.batch) - kPageOffset);
    }
    cache.data = cache.table = nullptr;
    cache.pages = pages.data();
    cache.page_offset = kPageOffset;
  }
  return cache;
}

void AttentionCase::lay_out(int shift) {
  shift_ = shift;
  if (shift >= 0) {
    table_stride_ = (keys - 1) / (int64_t{1} << shift) + 1;
    table_.resize(static_cast<size_t>(batch * table_stride_));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), random_);
  }
  k_cache_ = place(k_, k_scales_, problem.size, k_memory_, k_placed_, k_pages_);
  v_cache_ = place(v_, v_scales_, problem.value_size, v_memory_, v_placed_, v_pages_);
}

AttentionArguments AttentionCase::arguments() {
  AttentionArguments x;
  x.batch = batch;
  x.queries = queries;
  x.q = q_rows_;
  x.q.data = q_->data();
  // [batch, queries, heads, value size]
  x.y = {y->data(), queries * problem.heads * y_pitch_, y_pitch_, problem.heads * y_pitch_};
  x.k = k_cache_;
  x.v = v_cache_;
  x.bias = bias_;
  x.first = first.data();
  x.length = length.data();
  x.sinks = sinks_.empty() ? nullptr : sinks_.data();
  return x;
}

double AttentionCase::bias_at(int64_t b, int64_t h, int64_t i, int64_t key) const {
  if (bias_.data == nullptr) return 0;
  if (key >= bias_.keys) return kMasked;
  const double x =
      bias_memory_->get(b * bias_.batch + h * bias_.head + i * bias_.row + key * bias_.key);
  return bias_.type != ElementType::boolean ? x : x != 0 ? 0 : kMasked;
}

std::vector<double> AttentionCase::row(int64_t b, int64_t h, int64_t i) const {
  const AttentionProblem& p = problem;
  const int64_t at = b * q_rows_.batch + h * q_rows_.head + i * q_rows_.row;
  const int64_t position = first[static_cast<size_t>(b)] + i;
  const int64_t base = (b * p.key_heads + h / (p.heads / p.key_heads)) * keys;
  std::vector<double> scores;
  double largest = kMasked;
  for (int64_t key = 0; key < length[static_cast<size_t>(b)]; ++key) {
    const int64_t distance = position - key;
    const bool allowed = !(p.causal && distance < 0) && !(p.left >= 0 && distance > p.left) &&
                         !(p.right >= 0 && -distance > p.right);
    double score = 0;
    for (int64_t d = 0; d < p.size; ++d) {
      score += q_values_[static_cast<size_t>(at + d)] *
               k_[static_cast<size_t>((base + key) * p.size + d)];
    }
    score *= p.scale * k_scales_[static_cast<size_t>(base + key)];
    if (p.softcap > 0) score = p.softcap * std::tanh(score / p.softcap);
    scores.push_back(allowed ? score + bias_at(b, h, i, key) : kMasked);
    largest = std::max(largest, scores.back());
  }
  std::vector<double> out(static_cast<size_t>(p.value_size), 0.0);
  if (largest == kMasked) return out;
  double sum = 0;
  if (!sinks_.empty()) {
    const double sink = sinks_[static_cast<size_t>(h)];
    largest = std::max(largest, sink);
    sum = std::exp(sink - largest);
  }
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (size_t key = 0; key < scores.size(); ++key) {
    const size_t source = static_cast<size_t>(base) + key;
    const double weight = scores[key] / sum * v_scales_[source];
    for (size_t d = 0; d < out.size(); ++d) out[d] += weight * v_[source * out.size() + d];
  }
  return out;
}

const std::vector<double>& AttentionCase::expected() {
  if (!expected_.empty() && expected_first_ == first && expected_length_ == length) {
    return expected_;
  }
  expected_.clear();
  expected_first_ = first;
  expected_length_ = length;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t h = 0; h < problem.heads; ++h) {
        const std::vector<double> one = row(b, h, i);
        expected_.insert(expected_.end(), one.begin(), one.end());
      }
    }
  }
  return expected_;
}

void AttentionCase::clear_result() { *y = Guarded(y->type(), y->count()); }

std::string AttentionCase::difference(bool use_bf16) {
  // Relative to the largest value: scores up to 40 have an error of 40 · 2^-22 before exp, and
  // results are rounded. bf16 weights have an error of 2^-8; their sum does not.
  const double rounding = problem.result == ElementType::bf16  ? 0x1p-8
                          : problem.result == ElementType::f16 ? 0x1p-11
                                                               : 0;
  const double largest = problem.cache == ElementType::i8 ? 127 * 0.04 : 6;
  const double bound = largest * ((use_bf16 ? 0x1p-8 : 1e-5) + rounding);
  const double* expected_row = expected().data();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t h = 0; h < problem.heads; ++h, expected_row += problem.value_size) {
        const int64_t at = ((b * queries + i) * problem.heads + h) * y_pitch_;
        for (int64_t d = 0; d < y_pitch_; ++d) {
          if (d >= problem.value_size) {
            if (!y->is_fill(at + d)) return fmt::format("padding element {} changed", at + d);
            continue;
          }
          const double found = y->get(at + d), reference = expected_row[d];
          if (!(std::abs(found - reference) <= bound)) {
            return fmt::format("batch {} head {} query {} element {}: {}, expected {} ± {}", b, h,
                               i, d, found, reference, bound);
          }
        }
      }
    }
  }
  return y->guards_hold() ? "" : "memory around y changed";
}

}  // namespace lathe::cpu::test
