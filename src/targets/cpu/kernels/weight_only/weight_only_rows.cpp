// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>

#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

constexpr int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

// Rows that GEMM multiplies.
int64_t padded_rows(const WeightOnlyProblem& p, int64_t m) {
  return round_up(has_digits(p) ? (m + kDigitRows - 1) / kDigitRows * kPanel : m, kPanel);
}

}  // namespace

bool has_float_zeros(const WeightOnlyProblem& p) {
  return p.zero_type && *p.zero_type != ElementType::u8;
}
bool has_digits(const WeightOnlyProblem& p) {
  return p.compact && p.compute != WeightOnlyCompute::int8;
}
bool has_int8_rows(const WeightOnlyProblem& p) {
  return p.compact || p.compute == WeightOnlyCompute::int8;
}

RowsWorkspace::RowsWorkspace(const WeightOnlyProblem& p, const WeightOnlyLayout& layout,
                             int64_t m) {
  width = layout.blocks * p.block;
  const int64_t rows = padded_rows(p, m);
  stages = p.compute != WeightOnlyCompute::int8 || p.a_type != ElementType::f32 || p.k != width ||
           p.grouped;
  int64_t end = 0;
  const auto reserve = [&end](int64_t size) {
    const int64_t at = end;
    end += round_up(size, 64);
    return at;
  };
  floats_at = reserve(stages ? rows * width * 4 : 0);
  if (has_int8_rows(p)) {
    codes_at = reserve(rows * round_up(width, kStep));
    scales_at = reserve(rows * layout.blocks * 4);
    starts_at = reserve(rows * layout.blocks * 4);
  }
  bytes = end;
}

WeightOnlyRows::WeightOnlyRows(const WeightOnlyProblem& p, const WeightOnlyLayout& layout,
                               const void* packed, const WeightOnlyCall& call,
                               const WeightOnlyTable& table, bool few)
    : p_(p),
      layout_(layout),
      call_(call),
      table_(table),
      places_(p, layout, call.m),
      int8_(has_int8_rows(p)),
      digits_(has_digits(p)),
      height_(few && int8_ ? call.m * (digits_ ? kDigits : 1) : kPanel),
      count_(few || !digits_ ? call.m : padded_rows(p, call.m)),
      gather_(layout.gather_at < 0 ? nullptr
                                   : reinterpret_cast<const int32_t*>(
                                         static_cast<const uint8_t*>(packed) + layout.gather_at)) {
  auto* memory = static_cast<uint8_t*>(call.workspace);
  floats_ = reinterpret_cast<float*>(memory + places_.floats_at);
  rows_.codes = reinterpret_cast<int8_t*>(memory + places_.codes_at);
  rows_.scales = reinterpret_cast<float*>(memory + places_.scales_at);
  rows_.starts = reinterpret_cast<int32_t*>(memory + places_.starts_at);
}

void WeightOnlyRows::prepare(ThreadPool* pool) {
  digits_ ? prepare_digits(pool) : prepare_rows(pool);
}

// One row of a in f32 along the packed k, after staging.
const float* WeightOnlyRows::floats_of(int64_t row) const {
  return places_.stages ? floats_ + row * places_.width
                        : static_cast<const float*>(call_.a) + row * call_.a_stride;
}

void WeightOnlyRows::stage(int64_t row) {
  if (!places_.stages) return;
  const int64_t size = bytes_for(p_.a_type, 1);
  const auto* from = static_cast<const uint8_t*>(call_.a) + row * call_.a_stride * size;
  float* to = floats_ + row * places_.width;
  if (gather_ == nullptr) {
    convert(ElementType::f32, to, p_.a_type, from, p_.k);
    std::fill(to + p_.k, to + places_.width, 0.0F);
  } else {
    for (int64_t i = 0; i < places_.width; ++i) {
      to[i] = 0;
      if (gather_[i] >= 0)
        convert(ElementType::f32, to + i, p_.a_type, from + gather_[i] * size, 1);
    }
  }
  if (p_.compute == WeightOnlyCompute::bf16) table_.round_to_bf16(to, places_.width);
}

QuantisedRows WeightOnlyRows::from(int64_t row, int64_t block) const {
  QuantisedRows out = rows_;
  const int64_t in_block = height_ == kPanel ? row % kPanel : row;
  const int64_t first = row - in_block;
  const int64_t k = block * p_.block;
  out.codes += first * round_up(places_.width, kStep) + k / kStep * kStep * height_ + k % kStep +
               in_block * kStep;
  const int64_t at = first * layout_.blocks + block * height_ + in_block;
  out.scales += at;
  out.starts += at;
  return out;
}

// Pads the rows to a multiple of the height with zeros.
void WeightOnlyRows::prepare_rows(ThreadPool* pool) {
  const int64_t grain = height_ == kPanel ? kPanel : 4;  // rows that share cache lines
  parallel_for(pool, round_up(call_.m, height_), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const bool four = height_ == kPanel && row + 4 <= call_.m;
      const int64_t rows = four ? 4 : 1;
      for (int64_t r = row; r < row + rows && r < call_.m; ++r) stage(r);
      if (int8_ && row < call_.m) {
        quantise(floats_of(row), rows, row);
      } else if (int8_) {
        clear(row);
      } else if (row >= call_.m) {
        std::fill_n(floats_ + row * places_.width, places_.width, 0.0F);
      }
      row += rows;
    }
  });
}

// Quantises each row, then what is left of it.
void WeightOnlyRows::prepare_digits(ThreadPool* pool) {
  const auto place_of = [&](int64_t row, int64_t digit) {
    return height_ == kPanel ? row / kDigitRows * kPanel + row % kDigitRows * kDigits + digit
                             : row * kDigits + digit;
  };
  parallel_for(pool, call_.m, 4, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      stage(row);
      take_non_finite(row);
      float* const left = floats_ + row * places_.width;
      for (int64_t digit = 0; digit < kDigits; ++digit) {
        quantise(left, 1, place_of(row, digit));
        if (digit + 1 < kDigits) subtract_quantised(place_of(row, digit), left);
      }
    }
  });
  for (int64_t row = 0; height_ == kPanel && row < count_; row += kPanel) {
    for (int64_t r = valid(row, kPanel); r < kPanel; ++r) clear(row + r);
  }
}

void WeightOnlyRows::subtract_quantised(int64_t row, float* left) const {
  const QuantisedRows digit = from(row, 0);
  for (int64_t b = 0; b < layout_.blocks; ++b) {
    const auto scale = static_cast<double>(digit.scales[b * height_]);
    for (int64_t k = b * p_.block; k < (b + 1) * p_.block; ++k) {
      const int8_t code = digit.codes[k / kStep * kStep * height_ + k % kStep];
      left[k] = static_cast<float>(static_cast<double>(left[k]) - code * scale);
    }
  }
}

int64_t WeightOnlyRows::valid(int64_t row, int64_t rows) const {
  if (!digits_) return std::min(kPanel, rows);
  return std::min(kDigitRows, call_.m - row / kPanel * kDigitRows) * kDigits;
}

void WeightOnlyRows::quantise(const float* row_floats, int64_t rows, int64_t row) {
  RowsToQuantise floats;
  floats.from = row_floats;
  floats.stride = places_.stages ? places_.width : call_.a_stride;
  floats.rows = rows;
  floats.width = places_.width;
  floats.block = p_.block;
  floats.height = height_;
  floats.starts = has_float_zeros(p_)                        ? Starts::of_one
                  : p_.zero_type                             ? Starts::to_multiply
                  : height_ == kPanel && table_.signed_codes ? Starts::none
                                                             : Starts::of_zero;
  const bool compact = p_.compact && height_ != kPanel;
  floats.zero = compact ? zero_of(*p_.compact) : 1 << (p_.bits - 1);
  const QuantisedRows to = from(row, 0);
  const int64_t full_steps = places_.width / kStep * kStep;
  for (int64_t r = 0; full_steps != places_.width && r < rows; ++r) {
    std::memset(to.codes + full_steps * height_ + r * kStep, 0, kStep);
  }
  table_.f32->quantise(floats, to);
  for (int64_t b = 0; p_.compact && p_.compact->minimums && b < layout_.blocks; ++b) {
    for (int64_t i = b * height_; i < b * height_ + rows; ++i) {
      to.starts[i] = std::bit_cast<int32_t>(static_cast<float>(-to.starts[i]) * to.scales[i]);
    }
  }
}

void WeightOnlyRows::clear(int64_t row) {
  const QuantisedRows to = from(row, 0);
  for (int64_t k = 0; k < places_.width; k += kStep) {
    std::memset(to.codes + k * height_, 0, kStep);
  }
  for (int64_t i = 0; i < layout_.blocks; ++i) {
    to.scales[i * height_] = 0;
    to.starts[i * height_] = 0;
  }
}

WeightOnlyRows::RowsOfY WeightOnlyRows::rows_of_y(int64_t row, int64_t valid) const {
  if (!digits_) return {row, valid};
  return {row / kPanel * kDigitRows, valid / kDigits};
}

// One NaN decides its row.
void WeightOnlyRows::take_non_finite(int64_t row) {
  float* const at = floats_ + row * places_.width;
  std::vector<NonFinite> found;
  bool has_nan = false;
  for (int64_t k = 0; k < p_.k; ++k) {
    if (std::isfinite(at[k])) continue;
    if (std::isnan(at[k])) {
      has_nan = true;
      found = {{row, k, at[k]}};
    } else if (!has_nan) {
      found.push_back({row, k, at[k]});
    }
    at[k] = 0;
  }
  if (found.empty()) return;
  const std::lock_guard lock(mutex_);
  non_finite_.insert(non_finite_.end(), found.begin(), found.end());
}

std::vector<NonFinite> WeightOnlyRows::non_finite() const {
  std::vector<NonFinite> all = non_finite_;
  std::ranges::sort(all, {}, [](const NonFinite& x) { return std::tuple(x.row, x.k); });
  return all;
}

}  // namespace lathe::cpu
