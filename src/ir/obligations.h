// SPDX-License-Identifier: MIT
// Invariants that passes must preserve: requirements, state updates and the interface.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe {

class Obligations {
 public:
  explicit Obligations(const Program& program);

  // Lists broken obligations, one per line. A requirement is preserved if main has it or if it
  // holds for every binding. It may be absent once one of its symbols is removed.
  std::vector<std::string> broken_by(const Program& program, bool may_change_interface,
                                     bool may_change_requirements = false) const;

 private:
  std::vector<Guard> requirements_;
  std::map<std::string, int> updates_;  // state → number of instructions that update it
  std::vector<std::string> interface_;
};

}  // namespace lathe
