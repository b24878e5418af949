// SPDX-License-Identifier: MIT
#include "base/json.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_error.h"

namespace lathe {
namespace {

struct Extent {
  int levels = 0;     // of nested brackets
  size_t values = 1;  // at most
};

// The parser's callback could count levels, but takes quadratic time for objects of one parent.
Extent extent_of(std::string_view text) {
  Extent extent;
  int level = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      extent.levels = std::max(extent.levels, ++level);
    } else if (c == ']' || c == '}') {
      --level;
    } else if (c == ',') {
      ++extent.values;
    }
  }
  return extent;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view name, size_t max_bytes,
                          int max_levels) {
  using Json = nlohmann::json;
  check(max_bytes == 0 || text.size() <= max_bytes, ErrorKind::invalid_model,
        "{} has {} bytes, expected at most {}", escape(name), text.size(), max_bytes);
  const Extent extent = extent_of(text);
  check(extent.levels <= max_levels, ErrorKind::invalid_model, "{} is nested deeper than {} levels",
        escape(name), max_levels);
  constexpr size_t kBytesPerValue = 16;  // bounds the memory of values
  const size_t most = max_bytes / kBytesPerValue;
  check(max_bytes == 0 || extent.values <= most, ErrorKind::invalid_model,
        "{} has {} values, expected at most {}", escape(name), extent.values, most);
  std::string problem;
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    problem = json_error(text, error.byte);
  } catch (const Json::exception&) {
    problem = "a number is out of range";
  }
  fail(ErrorKind::invalid_model, "{} is not valid JSON: {}", escape(name), problem);
}

}  // namespace lathe
