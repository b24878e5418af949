// SPDX-License-Identifier: MIT
// The structure of programs as JSON, for other tools.
#pragma once

#include <string>

#include "ir/program.h"

namespace lathe {

// {"name", "stage", "metadata", "symbols", "states", "modules": [{"name", "parameters", "guards",
// "instructions": [{"op", "results", "operands", "attributes", …}], "results"}]}. Types, dims and
// attributes are written as in the text form; of literals, type, place and hash are given, not the
// elements; names that are not UTF-8 have their odd bytes escaped.
std::string to_json(const Program& program);

}  // namespace lathe
