// SPDX-License-Identifier: MIT
// A pass is a function over a program; a pipeline lists passes by the stage they lead to.
//
//   const Pass fold_constants{.name = "fold_constants",
//                             .doc = "Computes what rests on literals alone.",
//                             .run = [](Program& program) { … return changed; }};
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace lathe {

// Passes are idempotent and deterministic, and never type housekeeping: the runner cleans up and
// verifies after each.
struct Pass {
  std::string_view
      name;              // a verb phrase: fold_, simplify_, eliminate_, recognise_, fuse_, lower_ …
  std::string_view doc;  // one sentence
  std::function<bool(Program& program)> run;  // whether it changed anything
  // Adds, removes or renames parameters and results of main, as promote_state does.
  bool changes_interface = false;
};

struct StagePasses {
  Stage stage;  // the program's, once these passes have run
  std::vector<Pass> passes;
};

struct Pipeline {
  std::vector<StagePasses> stages;
  Pass cleanup;  // runs after every pass that changed the program
};

}  // namespace lathe
