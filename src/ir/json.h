// SPDX-License-Identifier: MIT
// Exports the structure of programs as JSON.
#pragma once

#include <string>

#include "ir/program.h"

namespace lathe {

// {"name", "stage", "metadata", "symbols", "states", "modules": [{"name", "parameters", "guards",
// "instructions": [{"op", "results", "operands", "attributes", …}], "results"}]}. Types, dims and
// attributes are spelled as in the text form. A literal has its type, location and hash, not its
// elements. Bytes that are not UTF-8 are escaped in names.
std::string to_json(const Program& program);

}  // namespace lathe
