// SPDX-License-Identifier: MIT
#include "ops/support/regex.h"

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {
namespace {

void infer_regex_full_match(Infer& c) {
  const Regex regex(c.text("pattern"), Regex::Mode::full);
  c.check(regex.problem().empty(), "pattern '{}' is not a valid regular expression: {}",
          escape(c.text("pattern")), regex.problem());
  c.result(ElementType::boolean, c.dims(0));
}

void eval_regex_full_match(Evaluation& c) {
  Regex regex(c.text("pattern"), Regex::Mode::full);
  const TensorView& x = c.in(0);
  const TensorView& out = c.out(0);
  for_each_index(x.extents(), [&](std::span<const int64_t> at) {
    const std::string& text = x.as<std::string>()[offset_of(x, at)];
    out.as<uint8_t>()[offset_of(out, at)] = regex.find(text) ? 1 : 0;
  });
}

}  // namespace

static const Register regex_full_match{{
    .name = "regex_full_match",
    .doc = "Whether each whole string matches the regular expression.",
    .operands = {{"x", kString}},
    .attributes = {{"pattern", AttributeKind::text}},
    .infer = infer_regex_full_match,
    .eval = eval_regex_full_match,
}};

}  // namespace lathe
