// SPDX-License-Identifier: MIT
// Quoted strings of the text form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lathe {

// `text` in double quotes; quotes, backslashes, control and bidirectional characters and bytes that
// are no UTF-8 become escapes, so that unquote() gives the same bytes back.
std::string quote(std::string_view text);

// What stands between the quotes of a quoted string, unescaped: \" \\ \n \t \r \xNN. nullopt if an
// escape is malformed.
std::optional<std::string> unquote(std::string_view inner);

}  // namespace lathe
