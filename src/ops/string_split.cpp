// SPDX-License-Identifier: MIT
#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"
#include "ops/support/texts.h"

namespace lathe {
namespace {

// Without a delimiter, white space around the text and runs of it between parts do not count.
Texts split(const Evaluation& c, std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::string& delimiter = c.text("delimiter");
  const bool at_space = delimiter.empty();
  const auto most = static_cast<size_t>(c.has_attribute("maxsplit") ? c.integer("maxsplit") : -1);
  const size_t begin = at_space ? std::min(text.find_first_not_of(kSpace), text.size()) : 0;
  text = text.substr(begin, at_space ? text.find_last_not_of(kSpace) + 1 - begin : text.size());
  Texts parts;
  while (parts.size() < most) {
    const size_t end = at_space ? text.find_first_of(kSpace) : text.find(delimiter);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(at_space ? text.find_first_not_of(kSpace, end) : end + delimiter.size());
  }
  if (!at_space || !text.empty()) parts.emplace_back(text);
  return parts;
}

void eval_string_split(Evaluation& c) {
  const auto rows = split_elements(c, [&](const std::string& x) { return split(c, x); });
  store_text_rows(c, rows, "");
  const Tensor counts(ElementType::i64, dims_of(c.in(0)));
  std::ranges::transform(rows, counts.as<int64_t>(), std::ssize<Texts>);
  store_tensor(counts, c.out(1, counts.dims()));
}

}  // namespace

static const Register string_split{{
    .name = "string_split",
    .doc = "The parts of each string between delimiters (white space by default), padded with "
           "empty strings, and their numbers.",
    .operands = {{"x", kString}},
    .attributes = {{"delimiter", ""}, {"maxsplit", AttributeKind::integer, false}},
    .results = 2,
    .infer =
        [](Infer& c) {
          if (c.has_attribute("maxsplit")) require_integer(c, "maxsplit", 0);
          infer_text_rows(c, "parts");
          c.result(ElementType::i64, c.dims(0));
        },
    .eval = eval_string_split,
}};

}  // namespace lathe
