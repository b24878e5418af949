// SPDX-License-Identifier: MIT
// Git LFS pointers: the small text files that a clone holds until `git lfs pull` fetches the
// content.
#pragma once

#include <string_view>

namespace lathe {

// InvalidModel if `bytes` are a Git LFS pointer. `path` is for the message.
void check_fetched(std::string_view bytes, std::string_view path);

}  // namespace lathe
