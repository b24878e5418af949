// SPDX-License-Identifier: MIT
// Prints programs in the text form that parse_program() reads.
#pragma once

#include <cstdint>
#include <string>

#include "ir/program.h"

namespace lathe {

struct PrintOptions {
  // Larger literals print as their location in a file or as their hash.
  int64_t inline_bytes = kInlineLiteralBytes;
  bool origins = true;
};

std::string print(const Program& program, const PrintOptions& options = {});
std::string print(const Module& module, const PrintOptions& options = {});
// One line without a line end, for messages and traces.
std::string print(const Instruction& instruction,
                  const PrintOptions& options = {.inline_bytes = 64});
std::string print(const Guard& guard);

// True for a literal that prints as a hash, so that a side file must hold it.
bool prints_as_hash(const Instruction& instruction, const PrintOptions& options = {});

// The op's name; for a region those of its body, as "conv+relu".
std::string op_text(const Instruction& instruction);

}  // namespace lathe
