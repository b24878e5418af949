// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ir/infer.h"
#include "ops/evaluation.h"

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
  c.check(!c.has_attribute("maxsplit") || c.integer("maxsplit") >= 0,
          "maxsplit is {}, expected at least 0",
          c.has_attribute("maxsplit") ? c.integer("maxsplit") : 0);
  dims.push_back(c.found("parts"));
  c.result(ElementType::string, std::move(dims));
  c.result(ElementType::i64, c.dims(0));
}

void eval_string_split(Evaluation& c) {
  const TensorView& x = c.in(0);
  const std::string delimiter = c.has_attribute("delimiter") ? c.text("delimiter") : "";
  const int64_t most = c.has_attribute("maxsplit") ? c.integer("maxsplit") : -1;
  std::vector<Texts> all;
  size_t longest = 0;
  for_each_index(x.extents(), [&](std::span<const int64_t> at) {
    all.push_back(split(x.as<std::string>()[offset_of(x, at)], delimiter, most));
    longest = std::max(longest, all.back().size());
  });
  Dims dims(x.extents().begin(), x.extents().end());
  const TensorView& counts = c.out(1, dims);
  dims.push_back(static_cast<int64_t>(longest));
  const TensorView& out = c.out(0, dims);
  size_t next = 0;
  for_each_index(x.extents(), [&](std::span<const int64_t> at) {
    const Texts& parts = all[next++];
    counts.as<int64_t>()[offset_of(counts, at)] = static_cast<int64_t>(parts.size());
    const int64_t first = offset_of(out, at);
    for (size_t i = 0; i < longest; ++i) {
      out.as<std::string>()[first + static_cast<int64_t>(i) * out.strides[out.rank - 1]] =
          i < parts.size() ? parts[i] : std::string();
    }
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
