// SPDX-License-Identifier: MIT
// Python's iterator functions.
#pragma once

#include "llm/template/value.h"

namespace lathe::templates {

bool is_reversible(const Value& value);
Ref<Iterator> reversed(const Value& value);  // TypeError if it is not reversible

}  // namespace lathe::templates
