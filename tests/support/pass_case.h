// SPDX-License-Identifier: MIT
// Cases of tests/passes/*.test (see tests/passes/README.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/pass.h"

namespace lathe::test {

struct PassCase {
  std::string file;
  int line = 0;
  std::string sentence;   // the comment before the case
  std::string before{};   // text between the braces of a program, unindented
  std::string after{};    // likewise, or "unchanged"
  std::string options{};  // text after the arrow
};

std::vector<PassCase> read_pass_cases(const std::string& file);
// The text of the file with the expected results of these cases.
std::string print_pass_cases(const std::vector<PassCase>& cases);

// Runs the pass with cleanup, verification and a round trip through the text. A second run must
// change nothing if the pass is `idempotent`, and both programs must have the same results on
// random inputs. Returns the expected `after`.
std::string run_pass_case(const PassCase& row, const Pass& pass, bool idempotent = true);

}  // namespace lathe::test
