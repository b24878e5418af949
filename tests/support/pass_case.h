// SPDX-License-Identifier: MIT
// Cases of tests/passes/*.test: see tests/passes/README.md.
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
  std::string before{};   // what stands between the braces of a program, unindented
  std::string after{};    // the same, or "unchanged"
  std::string options{};  // behind the arrow
};

std::vector<PassCase> read_pass_cases(const std::string& file);
// The file's text with these cases' expectations.
std::string print_pass_cases(const std::vector<PassCase>& cases);

// Runs the pass with cleanup, verification and a round trip through the text; a second run must
// change nothing; the programs before and after must agree on random inputs. Differences are test
// failures. Returns what `after` should be.
std::string run_pass_case(const PassCase& row, const Pass& pass);

}  // namespace lathe::test
