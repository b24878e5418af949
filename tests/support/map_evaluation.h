// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>

#include "ops/index_map.h"
#include "tests/support/row_text.h"

namespace lathe::test {

// Expects that the elements which the index map of result `i` reads from the row's operands are the
// row's result. `bindings`: values of the program's symbols.
void expect_mapped(const OpRow& row, size_t i, const SymbolicMap& map,
                   const std::map<std::string, int64_t>& bindings);

}  // namespace lathe::test
