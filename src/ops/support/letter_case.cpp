// SPDX-License-Identifier: MIT
#include "ops/support/letter_case.h"

#include <array>
#include <cstdint>

namespace lathe {
namespace {

// Upper-case letters [first, last], every `step`-th; lower case = upper case + `distance`.
struct CaseRange {
  uint32_t first;
  uint32_t last;
  uint32_t distance;
  uint32_t step = 1;
};
constexpr std::array<CaseRange, 13> kRanges{{{0x41, 0x5A, 32},
                                             {0xC0, 0xD6, 32},
                                             {0xD8, 0xDE, 32},
                                             {0x100, 0x12E, 1, 2},
                                             {0x132, 0x136, 1, 2},
                                             {0x139, 0x147, 1, 2},
                                             {0x14A, 0x176, 1, 2},
                                             {0x179, 0x17D, 1, 2},
                                             {0x391, 0x3A1, 32},
                                             {0x3A3, 0x3AB, 32},
                                             {0x400, 0x40F, 80},
                                             {0x410, 0x42F, 32},
                                             {0x531, 0x556, 48}}};

uint32_t changed(uint32_t c, bool upper) {
  for (const CaseRange& range : kRanges) {
    const uint32_t first = range.first + (upper ? range.distance : 0);
    const uint32_t last = range.last + (upper ? range.distance : 0);
    if (c < first || c > last || (c - first) % range.step != 0) continue;
    return upper ? c - range.distance : c + range.distance;
  }
  return c;
}

// All mapped letters take one or two bytes, and keep their number of bytes.
std::string with_case(std::string_view text, bool upper) {
  std::string out(text);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto lead = static_cast<unsigned char>(out[i]);
    if (lead < 0x80) {
      out[i] = static_cast<char>(changed(lead, upper));
    } else if (lead >= 0xC2 && lead < 0xE0 && i + 1 < out.size()) {
      const auto tail = static_cast<unsigned char>(out[i + 1]);
      if ((tail & 0xC0) != 0x80) continue;
      const uint32_t letter = changed((lead & 0x1Fu) << 6 | (tail & 0x3Fu), upper);
      out[i] = static_cast<char>(0xC0u | letter >> 6);
      out[++i] = static_cast<char>(0x80u | (letter & 0x3Fu));
    }
  }
  return out;
}

}  // namespace

std::string to_lower_case(std::string_view text) { return with_case(text, false); }
std::string to_upper_case(std::string_view text) { return with_case(text, true); }

}  // namespace lathe
