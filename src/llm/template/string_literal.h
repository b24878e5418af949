// SPDX-License-Identifier: MIT
// Escapes of string literals: Jinja uses Python's unicode-escape codec.
#pragma once

#include <string>
#include <string_view>

namespace lathe::templates {

std::string unescape_literal(std::string_view text, uint32_t line);

}  // namespace lathe::templates
