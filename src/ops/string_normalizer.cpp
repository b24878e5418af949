// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ops/evaluation.h"
#include "ops/support/letter_case.h"
#include "ops/support/requirements.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_string_normalizer(Infer& c) {
  require_choice(c, "case_change_action", {"NONE", "LOWER", "UPPER"});
  require_rank(c, 0, 1, 2);
  std::vector<Dim> dims = c.dims(0);
  if (dims.size() == 2) c.require_equal(dims[0], 1, "size of axis 0");
  const auto& words = std::get<Texts>(*find_attribute(c.instruction().attributes(), "stopwords"));
  if (!words.empty()) {
    dims.back() = c.found("words", {1, std::max<int64_t>(1, dims.back().range().max)});
  }
  c.result(ElementType::string, std::move(dims));
}

void eval_string_normalizer(Evaluation& c) {
  const TensorView& x = c.in(0);
  const std::string& action = c.text("case_change_action");
  const bool exact = c.boolean("is_case_sensitive");
  Texts stopwords = c.texts("stopwords");
  if (!exact) {
    for (std::string& word : stopwords) word = to_lower_case(word);
  }
  Texts kept;
  for_each_index(x.extents(), [&](std::span<const int64_t> at) {
    const std::string& text = x.as<std::string>()[offset_of(x, at)];
    const std::string compared = exact ? text : to_lower_case(text);
    if (std::find(stopwords.begin(), stopwords.end(), compared) != stopwords.end()) return;
    kept.push_back(action == "LOWER"   ? to_lower_case(text)
                   : action == "UPPER" ? to_upper_case(text)
                                       : text);
  });
  if (kept.empty() && !stopwords.empty()) kept.emplace_back();
  Dims dims = dims_of(x);
  dims.back() = static_cast<int64_t>(kept.size());
  const TensorView& out = c.out(0, dims);
  for (size_t i = 0; i < kept.size(); ++i) {
    out.as<std::string>()[static_cast<int64_t>(i) * out.strides[out.rank - 1]] = kept[i];
  }
}

}  // namespace

static const Register string_normalizer{{
    .name = "string_normalizer",
    .doc = "Strings without stop words, their case changed; one empty string if none is left.",
    .operands = {{"x", kString}},
    .attributes = {{"case_change_action", "NONE"},
                   {"is_case_sensitive", Attribute(false)},
                   {"stopwords", Attribute(Texts{})},
                   {"locale", AttributeKind::text, false}},
    .infer = infer_string_normalizer,
    .eval = eval_string_normalizer,
}};

}  // namespace lathe
