// SPDX-License-Identifier: MIT
// "%s, %5.2f" % values
#pragma once

#include "llm/template/value.h"

namespace lathe::templates {

Value percent_format(const Value& format, const Value& values);

}  // namespace lathe::templates
