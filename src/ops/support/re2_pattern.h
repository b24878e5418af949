// SPDX-License-Identifier: MIT
// Patterns in RE2's syntax, which ONNX demands, as patterns that mean the same to PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

struct Re2Pattern {
  std::string text;     // for PCRE2 with PCRE2_UTF and PCRE2_DOLLAR_ENDONLY
  std::string problem;  // of constructs that RE2 does not have (references, assertions, ...); or ""
};
// Source: RE2's syntax, the wiki of google/re2, "Syntax". \C (a byte) is refused too.
Re2Pattern re2_pattern(std::string_view pattern);

}  // namespace lathe
