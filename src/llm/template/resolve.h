// SPDX-License-Identifier: MIT
// Binds every name of a template to a variable and reports the errors of Jinja's compiler.
#pragma once

#include "llm/template/ast.h"

namespace lathe::templates {

// Scopes are those of the Python code that Jinja generates: a scope reads outer variables on
// entry, macros are closures. Unknown filters and tests, duplicate blocks and loop controls outside
// of loops are errors.
void resolve_names(Template& parsed);

}  // namespace lathe::templates
