// SPDX-License-Identifier: MIT
// Runs pipelines: what has to happen around every pass happens here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/pass.h"

namespace lathe {

#ifdef LATHE_VERIFY_EACH_PASS
inline constexpr bool kVerifyEachPass = true;
#else
inline constexpr bool kVerifyEachPass = false;
#endif

struct PassOptions {
  bool verify_each_pass = kVerifyEachPass;  // stage boundaries are verified in any case
  bool verify_each_rule = false;
  bool round_trip = false;  // print, parse and print again after each pass: the texts must agree
  std::optional<Stage> stop_after{};
  // Where the program as it was before a failing pass is saved, with its literals beside it; empty:
  // it is not.
  std::string save_failing{};
  std::function<void(const std::string& line)> trace{};  // one line per pass
  // Called before each pass; may throw Error(Interrupted).
  std::function<void()> check_interrupt{};
  // Called with the program as each pass and its cleanup left it.
  std::function<void(std::string_view pass, const Program& program)> after_pass{};
  // The pass to run in place of this one, or nullopt; tests plant faults here.
  std::function<std::optional<Pass>(const Pass& pass)> substitute{};
};

struct PassRecord {
  std::string_view pass;
  Stage stage;
  bool changed = false;
  double milliseconds = 0;  // with its cleanup, without verification
};

// Takes the program from its stage to the pipeline's last one (or `stop_after`), skipping stages it
// has reached. An error gets "while running pass 'x'" as a note; a program that is not whole after
// a pass is an Internal error with that pass's name.
std::vector<PassRecord> run_passes(Program& program, const Pipeline& pipeline,
                                   const PassOptions& options = {});

}  // namespace lathe
