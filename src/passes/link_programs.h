// SPDX-License-Identifier: MIT
// One program out of several that were cut apart: a later one's inputs are results of those before.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "ir/program.h"

namespace lathe {

struct ProgramPart {
  const Program* program = nullptr;
  // Results of this part that later ones know by another name.
  std::map<std::string, std::string> forwarded{};
};

// Parts come in the order that their names ask for, else in the order given. Inputs of equal names
// are one, unless another part gives a result of that name. Results that another part takes are no
// results of the whole. InvalidModel if two parts give the same result or wait for each other.
std::unique_ptr<Program> link_programs(std::span<const ProgramPart> parts);

}  // namespace lathe
