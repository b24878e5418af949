// SPDX-License-Identifier: MIT
// Formulas as in Transformers' modeling_rope_utils: YaRN is arXiv:2309.00071, LongRoPE
// arXiv:2402.13753, "dynamic" NTK scaling without a length (HunYuan's alpha).
#include "import/checkpoint/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lathe::checkpoint {
namespace {

using Frequencies = std::vector<float>;
constexpr int64_t kMaxTableElements = int64_t{1} << 28;
constexpr int64_t kMaxContext = int64_t{1} << 20;

Frequencies plain_frequencies(double theta, int64_t rotated) {
  Frequencies out;
  for (int64_t i = 0; i < rotated; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(rotated);
    out.push_back(1.0F / std::pow(static_cast<float>(theta), exponent));
  }
  return out;
}

void scale_llama3(const Config& c, int64_t positions, Frequencies& f) {
  const double factor = c.above_zero("factor", 8);
  const double low = c.above_zero("low_freq_factor", 1);
  const double high = c.above_zero("high_freq_factor", 4);
  check(high > low, ErrorKind::invalid_model,
        "'high_freq_factor' is {}, expected above 'low_freq_factor', {}", high, low);
  const double old =
      c.above_zero("original_max_position_embeddings", static_cast<double>(positions));
  for (float& frequency : f) {
    const double length = 2 * std::numbers::pi / static_cast<double>(frequency);
    if (length > old / low) {
      frequency = static_cast<float>(static_cast<double>(frequency) / factor);
    } else if (length >= old / high) {
      const double smooth = (old / length - low) / (high - low);
      frequency = static_cast<float>((1 - smooth) * static_cast<double>(frequency) / factor +
                                     smooth * static_cast<double>(frequency));
    }
  }
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// Returns the factor of cos and sin.
double scale_yarn(const Config& c, double theta, int64_t rotated, int64_t positions,
                  Frequencies& f) {
  const double old =
      c.above_zero("original_max_position_embeddings", static_cast<double>(positions));
  const double factor = c.above_zero("factor", static_cast<double>(positions) / old);
  const auto dim_of = [&](double rotations) {
    return static_cast<double>(rotated) * std::log(old / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = dim_of(c.above_zero("beta_fast", 32));
  double high = dim_of(c.above_zero("beta_slow", 1));
  if (c.flag("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotated - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < f.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const auto own = static_cast<double>(f[i]);
    f[i] = static_cast<float>(own / factor * ramp + own * (1 - ramp));
  }
  if (c.has("attention_factor")) return c.above_zero("attention_factor", 1);
  const double mscale = c.number("mscale", 0);
  const double all = c.number("mscale_all_dim", 0);
  if (mscale > 0 && all > 0) return yarn_scale(factor, mscale) / yarn_scale(factor, all);
  return yarn_scale(factor, 1);
}

RopeTables make_tables(const Frequencies& f, int64_t positions, double factor) {
  const auto half = static_cast<int64_t>(f.size());
  RopeTables tables{Tensor(ElementType::f32, {positions, half}),
                    Tensor(ElementType::f32, {positions, half})};
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(p) * f[static_cast<size_t>(i)];
      tables.cos.as<float>()[p * half + i] = std::cos(angle) * static_cast<float>(factor);
      tables.sin.as<float>()[p * half + i] = std::sin(angle) * static_cast<float>(factor);
    }
  }
  return tables;
}

void scale_by(const std::vector<double>& divisors, std::string_view what, Frequencies& f) {
  check(divisors.size() == f.size(), ErrorKind::invalid_model,
        "{} has {} factors, expected {} for {} rotated elements", what, divisors.size(), f.size(),
        2 * f.size());
  for (size_t i = 0; i < f.size(); ++i) {
    check(divisors[i] > 0, ErrorKind::invalid_model, "{} has the factor {}, expected above 0", what,
          divisors[i]);
    f[i] /= static_cast<float>(divisors[i]);
  }
}

}  // namespace

Rope make_rope(const Config& c, int64_t head_size, int64_t positions, int64_t rows,
               const std::vector<double>& divisors) {
  const std::string type = c.text("rope_type", "default");
  const double part = c.above_zero("partial_rotary_factor", 1);
  check(part <= 1, ErrorKind::invalid_model,
        "'partial_rotary_factor' is {}, expected above 0 and at most 1", part);
  Rope rope;
  const auto part_size = static_cast<int64_t>(static_cast<double>(head_size) * part);
  rope.rotated = type == "proportional" ? head_size : part_size;
  check(rope.rotated > 0 && rope.rotated % 2 == 0 && rows <= kMaxTableElements / rope.rotated,
        ErrorKind::invalid_model, "RoPE of {} elements and {} positions is not supported",
        rope.rotated, rows);
  // YaRN divides by its logarithm.
  double theta = c.above(type == "yarn" ? 1 : 0, "rope_theta", 10000);
  if (type == "dynamic" && c.has("alpha")) {
    const double alpha = c.above_zero("alpha");
    const auto size = static_cast<double>(rope.rotated);
    if (size > 2) theta *= std::pow(alpha, size / (size - 2));
  }
  Frequencies f = plain_frequencies(theta, rope.rotated);
  const Frequencies plain = f;
  if (!divisors.empty()) scale_by(divisors, "the file", f);
  double factor = c.above_zero("attention_factor", 1);
  if (type == "linear") {
    const auto linear = static_cast<float>(c.above_zero("factor"));
    for (float& frequency : f) frequency /= linear;
  } else if (type == "llama3") {
    scale_llama3(c, positions, f);
  } else if (type == "yarn") {
    factor = scale_yarn(c, theta, rope.rotated, positions, f);
  } else if (type == "proportional") {
    // The first part of the pairs rotates, by frequencies of the whole head.
    const size_t rotating = static_cast<size_t>(part_size / 2);
    for (size_t i = rotating; i < f.size(); ++i) f[i] = 0;
    const auto linear = static_cast<float>(c.above_zero("factor", 1));
    for (float& frequency : f) frequency /= linear;
  } else if (type == "longrope") {
    const double old =
        c.above_zero("original_max_position_embeddings", static_cast<double>(positions));
    const double ratio =
        c.has("factor") ? c.above_zero("factor", 1) : static_cast<double>(positions) / old;
    const auto scale_of = [&] {
      if (c.has("attention_factor")) return factor;
      if (ratio <= 1) return 1.0;
      const double base = c.above(1, "original_max_position_embeddings", old);
      return std::sqrt(1 + std::log(ratio) / std::log(base));
    };
    const double scale = scale_of();
    rope.max_short = static_cast<int64_t>(old);
    Frequencies longer = plain;
    scale_by(c.numbers("short_factor"), "'short_factor'", f);
    // Transformers scales Phi's experts by the short factors at all lengths.
    const char* factors = c.has("long_mscale") ? "short_factor" : "long_factor";
    scale_by(c.numbers(factors), factors, longer);
    rope.tables = make_tables(f, rows, c.above_zero("short_mscale", scale));
    if (rows > rope.max_short) {
      rope.long_tables = make_tables(longer, rows, c.above_zero("long_mscale", scale));
    }
    return rope;
  } else {
    check(type == "default" || type == "dynamic", ErrorKind::unsupported,
          "'rope_type' is '{}', expected default, linear, dynamic, llama3, yarn, longrope or "
          "proportional",
          escape(type));
  }
  rope.tables = make_tables(f, rows, factor);
  return rope;
}

int64_t longest_context(const Config& config, int64_t head_size, int64_t weight_bytes) {
  constexpr int64_t kFree = int64_t{32} << 20;
  if (config.text("position_embedding_type") == "nope") return kMaxContext;
  const Config rope = config.object("rope_parameters");
  const bool by_layer = rope.has("full_attention");
  const double part = by_layer ? 1 : rope.number("partial_rotary_factor", 1);
  const double row = static_cast<double>(head_size * (by_layer ? 2 : 1)) *
                     (part > 0 && part < 1 ? part : 1) * (rope.has("long_factor") ? 4 : 1) *
                     static_cast<double>(sizeof(float));
  const double most = static_cast<double>(kFree + weight_bytes / 8) / row;
  return std::clamp(static_cast<int64_t>(most), int64_t{1}, kMaxContext);
}

}  // namespace lathe::checkpoint
