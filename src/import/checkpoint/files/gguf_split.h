// SPDX-License-Identifier: MIT
// Split GGUF files, NAME-00001-of-00003.gguf and so on: the first part has the model's keys.
#pragma once

#include <string>
#include <vector>

#include "import/checkpoint/files/gguf.h"

namespace lathe::checkpoint {

// InvalidModel for a later part, with the name of the first one.
void check_first_part(const GgufFile& gguf, const std::string& path);
// The paths of the parts behind the first one, `path`; empty if the model is not split.
// InvalidModel for a later part, Io for missing parts.
std::vector<std::string> later_parts(const GgufFile& gguf, const std::string& path);
// InvalidModel if the file's keys are those of another part than `number` (from 1) of `count`.
void check_part(const GgufFile& gguf, uint64_t number, uint64_t count);

}  // namespace lathe::checkpoint
