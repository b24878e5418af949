// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace lathe::tokenizer {

// The bytes that `text` stands for; `where` names it in errors (InvalidModel).
std::string decode_base64(std::string_view text, std::string_view where);

}  // namespace lathe::tokenizer
