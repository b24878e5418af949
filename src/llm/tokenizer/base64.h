// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace lathe::tokenizer {

// Decodes base64. InvalidModel names `where`.
std::string decode_base64(std::string_view text, std::string_view where);

}  // namespace lathe::tokenizer
