// SPDX-License-Identifier: MIT
// The tensors of a Hugging Face folder or a GGUF file.
#pragma once

#include <string>

namespace lathe::cli {

bool is_checkpoint(const std::string& path);
// A table of weight types (tensors, bytes, how they are held) and one of tensors; or both as JSON.
std::string describe_checkpoint(const std::string& path, bool json);

}  // namespace lathe::cli
