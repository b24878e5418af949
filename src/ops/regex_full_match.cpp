// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/support/regex.h"
#include "ops/support/texts.h"

namespace lathe {

static const Register regex_full_match{{
    .name = "regex_full_match",
    .doc = "Whether each whole string matches the regular expression.",
    .operands = {{"x", kString}},
    .attributes = {{"pattern", AttributeKind::text}},
    .infer =
        [](Infer& c) {
          const Regex regex(c.text("pattern"), Regex::Mode::full);
          c.check(regex.problem().empty(), "pattern '{}' is not a valid regular expression: {}",
                  escape(c.text("pattern")), regex.problem());
          c.result(ElementType::boolean, c.dims(0));
        },
    .eval =
        [](Evaluation& c) {
          Regex regex(c.text("pattern"), Regex::Mode::full);
          map_texts<uint8_t>(c,
                             [&](const std::string& text) { return regex.find(text).has_value(); });
        },
}};

}  // namespace lathe
