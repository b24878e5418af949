// SPDX-License-Identifier: MIT
#include "base/quote.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"

namespace lathe {
namespace {

// Length of the UTF-8 sequence that starts with `lead`.
size_t sequence_length(unsigned char lead) {
  return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::string_view unit =
        text.substr(0, sequence_length(static_cast<unsigned char>(text[0])));
    if (unit == "\"" || unit == "\\") {
      (out += '\\') += unit;
    } else if (unit == "\n") {
      out += "\\n";
    } else if (escape(unit) == unit) {
      out += unit;
    } else {
      // Escape one byte only: a valid sequence may start at the next byte.
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(unit.size());
  }
  return out + '"';
}

std::optional<std::string> unquote(std::string_view inner) {
  std::string out;
  out.reserve(inner.size());
  for (size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] != '\\') {
      out += inner[i];
      continue;
    }
    if (++i == inner.size()) return std::nullopt;
    switch (inner[i]) {
      case '"':
      case '\\':
        out += inner[i];
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'x': {
        if (i + 2 >= inner.size()) return std::nullopt;
        unsigned value = 0;
        const char* end = inner.data() + i + 3;
        if (std::from_chars(inner.data() + i + 1, end, value, 16).ptr != end) return std::nullopt;
        out += static_cast<char>(value);
        i += 2;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return out;
}

}  // namespace lathe
