// SPDX-License-Identifier: MIT
// The weights of a Hugging Face folder, a GGUF file, or the compiled file of a language model.
#pragma once

#include <string>

namespace lathe::cli {

bool is_checkpoint(const std::string& path);
// A table of weight types (tensors, bytes, how they are held) and one of tensors; or both as JSON.
std::string describe_checkpoint(const std::string& path, bool json);
// The types of a checkpoint's tensors in one line: "8 of Q4_0 (4-bit codes, …), 3 of F32".
std::string describe_types(const std::string& path);

bool is_compiled_model(const std::string& path);
// What the programs were compiled for, and a table of constants by type; or both as JSON.
std::string describe_compiled(const std::string& path, bool json);

}  // namespace lathe::cli
