// SPDX-License-Identifier: MIT
// A pass is a function over a program; a pipeline lists passes by the stage they lead to.
//
//   const Pass fold_constants{.name = "fold_constants",
//                             .doc = "Evaluates instructions whose operands are literals.",
//                             .run = [](Program& program) { … return changed; }};
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace lathe {

// Passes are idempotent and deterministic. The runner cleans up and verifies after each one.
struct Pass {
  std::string_view name;  // fold_, simplify_, eliminate_, recognise_, fuse_ or lower_ and an object
  std::string_view doc;   // one sentence
  std::function<bool(Program& program)> run;  // true if it changed anything
  // Adds, removes or renames parameters or results of main, as promote_state does.
  bool changes_interface = false;
  // Changes what the dims of the interface mean (a batch of one), and the requirements on them.
  bool changes_requirements = false;
};

struct StagePasses {
  Stage stage;  // the program's stage after these passes
  std::vector<Pass> passes;
};

struct Pipeline {
  std::vector<StagePasses> stages;
  Pass cleanup;  // runs after every pass that changed the program
};

}  // namespace lathe
