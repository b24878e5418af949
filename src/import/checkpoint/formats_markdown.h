// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace lathe::checkpoint {

// The page docs/formats.md: architectures, quantisers and block types.
std::string formats_markdown();

}  // namespace lathe::checkpoint
