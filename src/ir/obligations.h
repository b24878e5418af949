// SPDX-License-Identifier: MIT
// What no pass may lose: requirements, updates of states, and what the caller binds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe {

class Obligations {
 public:
  explicit Obligations(const Program& program);

  // What the program no longer keeps, one line each. A requirement is kept while main states it,
  // while it holds for every binding, or once a symbol of it is gone.
  std::vector<std::string> broken_by(const Program& program, bool may_change_interface) const;

 private:
  std::vector<Guard> requirements_;
  std::map<std::string, int> updates_;  // state → instructions that update it
  std::vector<std::string> interface_;
};

}  // namespace lathe
