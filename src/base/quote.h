// SPDX-License-Identifier: MIT
// Quoted strings of the text form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lathe {

// Puts `text` in double quotes and escapes quotes, backslashes, control and bidirectional
// characters and invalid UTF-8. unquote() is the inverse.
std::string quote(std::string_view text);

// Replaces the escapes \" \\ \n \t \r \xNN in the text between the quotes; nullopt if an escape is
// malformed.
std::optional<std::string> unquote(std::string_view inner);

}  // namespace lathe
