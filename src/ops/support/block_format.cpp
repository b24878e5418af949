// SPDX-License-Identifier: MIT
// Layouts as in the specification of GGUF's tensor types.
#include "ops/support/block_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tensor/element_type.h"
#include "tensor/float_formats.h"

namespace lathe {
namespace {

// Non-linear levels of IQ4_NL and IQ4_XS, and of MXFP4 (times two).
constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

uint16_t bits_of_half(const uint8_t* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, 2);
  return bits;
}
float half(const uint8_t* from) { return half_to_float(bits_of_half(from)); }

// The f16 factors of byte scales and of minimums, which are subtracted.
void set_factors(const uint8_t* d, const uint8_t* dmin, BlockParts& p) {
  p.factor = bits_of_half(d);
  if (dmin != nullptr) p.minimum_factor = bits_of_half(dmin) ^ 0x8000;
}
// A block with one f16 scale.
void set_scale(const uint8_t* d, BlockParts& p) {
  p.factor = bits_of_half(d);
  p.scales[0] = half_to_float(p.factor);
}
void set_minimum(const uint8_t* m, BlockParts& p) {
  p.minimum_factor = bits_of_half(m);
  p.minimums[0] = half_to_float(p.minimum_factor);
}
void set_group(int g, float d, int scale, float dmin, int minimum, BlockParts& p) {
  p.byte_scales[g] = static_cast<int8_t>(scale);
  p.byte_minimums[g] = static_cast<int8_t>(minimum);
  p.scales[g] = d * static_cast<float>(scale);
  p.minimums[g] = -(dmin * static_cast<float>(minimum));
}

// 16 bytes of two codes each: first the low ones.
void split_nibbles(const uint8_t* from, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = from[i] & 15;
    codes[i + 16] = from[i] >> 4;
  }
}

void add_high_bits(const uint8_t* from, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(codes[i] | (from[i / 8] >> (i % 8) & 1) << 4);
  }
}

void split_q4_0(const uint8_t* b, BlockParts& p) {
  set_scale(b, p);
  split_nibbles(b + 2, p.codes);
}
void split_q4_1(const uint8_t* b, BlockParts& p) {
  set_scale(b, p);
  set_minimum(b + 2, p);
  split_nibbles(b + 4, p.codes);
}
void split_q5_0(const uint8_t* b, BlockParts& p) {
  set_scale(b, p);
  split_nibbles(b + 6, p.codes);
  add_high_bits(b + 2, p.codes);
}
void split_q5_1(const uint8_t* b, BlockParts& p) {
  set_scale(b, p);
  set_minimum(b + 2, p);
  split_nibbles(b + 8, p.codes);
  add_high_bits(b + 4, p.codes);
}
void split_q8_0(const uint8_t* b, BlockParts& p) {
  set_scale(b, p);
  for (int i = 0; i < 32; ++i) p.codes[i] = static_cast<uint8_t>(b[2 + i] ^ 0x80);
}

void split_q2_k(const uint8_t* b, BlockParts& p) {
  const float d = half(b + 80), dmin = half(b + 82);
  set_factors(b + 80, b + 82, p);
  for (int g = 0; g < 16; ++g) set_group(g, d, b[g] & 15, dmin, b[g] >> 4, p);
  for (int i = 0; i < 256; ++i) {
    p.codes[i] = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
  }
}

void split_q3_k(const uint8_t* b, BlockParts& p) {
  const float d = half(b + 108);
  set_factors(b + 108, nullptr, p);
  const uint8_t* s = b + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    const int high = s[8 + g % 4] >> (g / 4 * 2) & 3;
    set_group(g, d, (low | high << 4) - 32, 0, 0, p);
  }
  for (int i = 0; i < 256; ++i) {
    const int part = i / 32;
    const int low = b[32 + i / 128 * 32 + i % 32] >> (part % 4 * 2) & 3;
    p.codes[i] = static_cast<uint8_t>(low | (b[i % 32] >> part & 1) << 2);
  }
}

// Scales and minimums of Q4_K and Q5_K: 6 bits each, in 12 bytes.
void split_k_scales(const uint8_t* b, BlockParts& p) {
  const float d = half(b), dmin = half(b + 2);
  set_factors(b, b + 2, p);
  const uint8_t* s = b + 4;
  for (int g = 0; g < 8; ++g) {
    const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
    const int minimum = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
    set_group(g, d, scale, dmin, minimum, p);
  }
}
void split_q4_k(const uint8_t* b, BlockParts& p) {
  split_k_scales(b, p);
  for (int i = 0; i < 256; ++i) {
    p.codes[i] = b[16 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
  }
}
void split_q5_k(const uint8_t* b, BlockParts& p) {
  split_k_scales(b, p);
  for (int i = 0; i < 256; ++i) {
    const int low = b[48 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
    p.codes[i] = static_cast<uint8_t>(low | (b[16 + i % 32] >> (i / 32) & 1) << 4);
  }
}

void split_q6_k(const uint8_t* b, BlockParts& p) {
  const float d = half(b + 208);
  set_factors(b + 208, nullptr, p);
  for (int g = 0; g < 16; ++g) set_group(g, d, static_cast<int8_t>(b[192 + g]), 0, 0, p);
  for (int i = 0; i < 256; ++i) {
    const int part = i % 128 / 32;
    const int low = b[i / 128 * 64 + part % 2 * 32 + i % 32] >> (part / 2 * 4) & 15;
    const int high = b[128 + i / 128 * 32 + i % 32] >> (part * 2) & 3;
    p.codes[i] = static_cast<uint8_t>(low | high << 4);
  }
}

void split_iq4_xs(const uint8_t* b, BlockParts& p) {
  const float d = half(b);
  set_factors(b, nullptr, p);
  const int high = b[2] | b[3] << 8;
  for (int g = 0; g < 8; ++g) {
    const int scale = (b[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> (g * 2) & 3) << 4;
    set_group(g, d, scale - 32, 0, 0, p);
    split_nibbles(b + 8 + g * 16, p.codes + g * 32);
  }
}

void split_mxfp4(const uint8_t* b, BlockParts& p) {
  p.scales[0] = std::ldexp(1.0F, b[0] - 128);
  split_nibbles(b + 1, p.codes);
}

constexpr BlockFormat kFormats[] = {
    {"Q4_0", 32, 18, 32, 4, 8, nullptr, false, false, split_q4_0},
    {"Q4_1", 32, 20, 32, 4, 0, nullptr, true, false, split_q4_1},
    {"Q5_0", 32, 22, 32, 5, 16, nullptr, false, false, split_q5_0},
    {"Q5_1", 32, 24, 32, 5, 0, nullptr, true, false, split_q5_1},
    {"Q8_0", 32, 34, 32, 8, 128, nullptr, false, false, split_q8_0},
    {"Q2_K", 256, 84, 16, 2, 0, nullptr, true, true, split_q2_k},
    {"Q3_K", 256, 110, 16, 3, 4, nullptr, false, true, split_q3_k},
    {"Q4_K", 256, 144, 32, 4, 0, nullptr, true, true, split_q4_k},
    {"Q5_K", 256, 176, 32, 5, 0, nullptr, true, true, split_q5_k},
    {"Q6_K", 256, 210, 16, 6, 32, nullptr, false, true, split_q6_k},
    {"IQ4_NL", 32, 18, 32, 4, 0, kIq4Levels, false, false, split_q4_0},
    {"IQ4_XS", 256, 136, 32, 4, 0, kIq4Levels, false, true, split_iq4_xs},
    {"MXFP4", 32, 17, 32, 4, 0, kFp4Levels, false, false, split_mxfp4},
};

}  // namespace

const BlockFormat* find_block_format(std::string_view name) {
  const auto* at = std::ranges::find(kFormats, name, &BlockFormat::name);
  return at == std::end(kFormats) ? nullptr : at;
}

SplitForm::SplitForm(const BlockFormat& f)
    : bits(f.levels != nullptr || f.bits > 4 ? 8
           : f.bits > 2                      ? 4
                                             : 2),
      scale_type(f.group == f.elements && f.name != "MXFP4" ? ElementType::f16 : ElementType::f32) {
}

void split_blocks(const BlockFormat& f, const uint8_t* blocks, int64_t count, uint8_t* codes,
                  float* scales, float* zeros) {
  const int bits = SplitForm(f).bits;
  const int per_byte = 8 / bits;
  std::array<uint8_t, 256> code_of{};
  for (size_t code = 0; code < code_of.size(); ++code) {
    const int level = f.levels != nullptr ? f.levels[code % 16] : static_cast<int>(code) - f.zero;
    code_of[code] =
        static_cast<uint8_t>(f.has_minimum ? static_cast<int>(code) : level + (1 << (bits - 1)));
  }
  BlockParts parts{};
  for (int64_t b = 0; b < count; ++b, blocks += f.bytes) {
    f.split(blocks, parts);
    for (int64_t g = 0; g < f.elements / f.group; ++g) {
      if (f.has_minimum && parts.scales[g] == 0) {
        // All elements are the minimum: (0 - -1) · minimum.
        std::fill_n(parts.codes + g * f.group, f.group, uint8_t{0});
        parts.scales[g] = parts.minimums[g];
      }
      *scales++ = parts.scales[g];
      if (f.has_minimum) {
        *zeros++ = parts.scales[g] == 0 ? 0 : -parts.minimums[g] / parts.scales[g];
      }
    }
    if (bits == 8 && f.bits == 8) {
      std::memcpy(codes, parts.codes, static_cast<size_t>(f.elements));
      codes += f.elements;
      continue;
    }
    for (int64_t i = 0; i < f.elements; i += per_byte, ++codes) {
      int byte = 0;
      for (int j = 0; j < per_byte; ++j) byte |= code_of[parts.codes[i + j]] << (j * bits);
      *codes = static_cast<uint8_t>(byte);
    }
  }
}

void dequantise(const BlockFormat& f, const uint8_t* blocks, int64_t count, float* to,
                ThreadPool* pool) {
  constexpr int64_t kGrain = 64;
  parallel_for(pool, count / f.elements, kGrain, [&](int64_t begin, int64_t end) {
    BlockParts parts{};
    for (int64_t b = begin; b < end; ++b) {
      f.split(blocks + b * f.bytes, parts);
      for (int64_t i = 0; i < f.elements; ++i) {
        const int level = f.levels != nullptr ? f.levels[parts.codes[i]] : parts.codes[i] - f.zero;
        const int64_t g = i / f.group;
        to[b * f.elements + i] = parts.scales[g] * static_cast<float>(level) + parts.minimums[g];
      }
    }
  });
}

}  // namespace lathe
