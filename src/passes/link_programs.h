// SPDX-License-Identifier: MIT
// Links programs that were exported in parts: inputs of a later part are results of earlier ones.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "ir/program.h"

namespace lathe {

struct ProgramPart {
  const Program* program = nullptr;
  // Name of a result here → name of the input of a later part.
  std::map<std::string, std::string> forwarded{};
};

// Sorts parts by their dependencies; independent parts keep the given order. Inputs of equal names
// are merged, unless a part produces a result of that name. Results that another part reads are not
// results of the linked program. InvalidModel if two parts produce the same result or depend on
// each other.
std::unique_ptr<Program> link_programs(std::span<const ProgramPart> parts);

}  // namespace lathe
