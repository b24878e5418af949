// SPDX-License-Identifier: MIT
// Runs pipelines, with cleanup, verification and traces around every pass.
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
  bool verify_each_pass = kVerifyEachPass;  // stage boundaries are always verified
  bool verify_each_rule = false;
  bool round_trip = false;  // print, parse and print again after each pass: the texts must be equal
  std::optional<Stage> stop_after{};
  // File for the program before a failing pass, with its literals next to it; empty: none.
  std::string save_failing{};
  std::function<void(const std::string& line)> trace{};  // one line per pass
  // Called before each pass; may throw Error(Interrupted).
  std::function<void()> check_interrupt{};
  // Called with the program after each pass and its cleanup.
  std::function<void(std::string_view pass, const Program& program)> after_pass{};
  // Returns a pass to run instead of `pass`, or nullopt; tests inject faults.
  std::function<std::optional<Pass>(const Pass& pass)> substitute{};
};

struct PassRecord {
  std::string_view pass;
  Stage stage;
  bool changed = false;
  double milliseconds = 0;  // includes cleanup, excludes verification
};

// Runs the program from its stage to the pipeline's last one (or `stop_after`), skipping completed
// stages. An error gets the note "while running pass 'x'"; an invalid program after a pass is an
// Internal error that names the pass.
std::vector<PassRecord> run_passes(Program& program, const Pipeline& pipeline,
                                   const PassOptions& options = {});

}  // namespace lathe
