// SPDX-License-Identifier: MIT
// Formats of files by their first bytes, for error messages.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

// Why bytes are not of the expected format: "it is empty", "it looks like a text file", or, for
// unknown bytes, "it begins with '…'".
std::string describe_content(std::string_view bytes);

}  // namespace lathe::cli
