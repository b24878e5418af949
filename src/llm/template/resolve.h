// SPDX-License-Identifier: MIT
// Finds which variable every name of a template means, and what Jinja finds out when it compiles.
#pragma once

#include "llm/template/ast.h"

namespace lathe::templates {

// Names have scopes as in the Python code that Jinja makes: a scope reads its outer variables when
// it is entered, macros see theirs as closures do. Unknown filters and tests, blocks defined
// twice and loop controls outside of loops are errors here.
void resolve_names(Template& parsed);

}  // namespace lathe::templates
