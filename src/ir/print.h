// SPDX-License-Identifier: MIT
// The text form of programs: what parse_program() reads back.
#pragma once

#include <cstdint>
#include <string>

#include "ir/program.h"

namespace lathe {

struct PrintOptions {
  // Literals of more bytes print as their place in a file, or as their hash.
  int64_t inline_bytes = kInlineLiteralBytes;
  bool origins = true;
};

std::string print(const Program& program, const PrintOptions& options = {});
std::string print(const Module& module, const PrintOptions& options = {});
// One line without its end, for messages and traces.
std::string print(const Instruction& instruction,
                  const PrintOptions& options = {.inline_bytes = 64});
std::string print(const Guard& guard);

// Whether this is a literal whose text names only its hash, so that a side file must hold it.
bool prints_as_hash(const Instruction& instruction, const PrintOptions& options = {});

}  // namespace lathe
