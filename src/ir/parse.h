// SPDX-License-Identifier: MIT
// Reads the text form of programs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace lathe {

struct ParseOptions {
  std::string file = "text";  // for messages
  // Literals that do not stand in the text: the tensor of a hash (from a side file), or the bytes
  // at a place in a file. Where one is missing or gives null, the literal is an InvalidModel error.
  std::function<LiteralRef(uint64_t hash, const Type& type)> literal_by_hash = {};
  std::function<LiteralRef(const std::string& file, int64_t offset, const Type& type)>
      literal_in_file = {};
  bool verify = true;  // off: only what parsing and inference find
};

// Whether these bytes begin like a program's text.
bool looks_like_program(std::string_view bytes);

// The program, typed by inference; types in the text are compared with the inferred ones and may be
// left out. Errors are InvalidModel "file:line:column: …" with the line and a caret as notes.
std::unique_ptr<Program> parse_program(std::string_view text, const ParseOptions& options = {});

// parse_program's options with every literal of a program at hand, for printing and parsing again.
ParseOptions with_literals_of(const Program& program);

}  // namespace lathe
