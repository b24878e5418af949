// SPDX-License-Identifier: MIT
#include "ops/support/requirements.h"
#include "ops/support/text_rows.h"

namespace lathe {
namespace {

constexpr std::string_view kSpace = " \t\n\v\f\r";

Texts split(const std::string& text, const std::string& delimiter, int64_t most) {
  Texts parts;
  size_t at = delimiter.empty() ? text.find_first_not_of(kSpace) : 0;
  while (at != std::string::npos) {
    const size_t end =
        delimiter.empty() ? text.find_first_of(kSpace, at) : text.find(delimiter, at);
    if (end == std::string::npos || static_cast<int64_t>(parts.size()) == most) {
      const size_t last = delimiter.empty() ? text.find_last_not_of(kSpace) + 1 : text.size();
      parts.push_back(text.substr(at, last - at));
      break;
    }
    parts.push_back(text.substr(at, end - at));
    at = delimiter.empty() ? text.find_first_not_of(kSpace, end) : end + delimiter.size();
  }
  return parts;
}

void infer_string_split(Infer& c) {
  std::vector<Dim> dims = c.dims(0);
  if (c.has_attribute("maxsplit")) require_integer(c, "maxsplit", 0);
  dims.push_back(c.found("parts"));
  c.result(ElementType::string, std::move(dims));
  c.result(ElementType::i64, c.dims(0));
}

void eval_string_split(Evaluation& c) {
  const std::string delimiter = c.has_attribute("delimiter") ? c.text("delimiter") : "";
  const int64_t most = c.has_attribute("maxsplit") ? c.integer("maxsplit") : -1;
  const std::vector<Texts> rows =
      split_elements(c, [&](const std::string& text) { return split(text, delimiter, most); });
  store_text_rows(c, rows, "");
  const TensorView& counts = c.out(1, c.in(0).extents());
  size_t next = 0;
  for_each_index(counts.extents(), [&](std::span<const int64_t> at) {
    counts.as<int64_t>()[offset_of(counts, at)] = std::ssize(rows[next++]);
  });
}

}  // namespace

static const Register string_split{{
    .name = "string_split",
    .doc =
        "The parts of each string between delimiters (white space by default), padded with empty "
        "strings, and their numbers.",
    .operands = {{"x", kString}},
    .attributes = {{"delimiter", AttributeKind::text, false},
                   {"maxsplit", AttributeKind::integer, false}},
    .results = 2,
    .infer = infer_string_split,
    .eval = eval_string_split,
}};

}  // namespace lathe
