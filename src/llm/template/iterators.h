// SPDX-License-Identifier: MIT
// Iterators over values that Python has functions for.
#pragma once

#include "llm/template/value.h"

namespace lathe::templates {

bool is_reversible(const Value& value);
Ref<Iterator> reversed(const Value& value);  // TypeError for what cannot be walked backwards

}  // namespace lathe::templates
