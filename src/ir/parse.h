// SPDX-License-Identifier: MIT
// Parses the text form of programs.
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
  // Resolve literals outside the text: by hash (from a side file), or by file and offset.
  // InvalidModel if the function is missing or returns null.
  std::function<LiteralRef(uint64_t hash, const Type& type)> literal_by_hash = {};
  std::function<LiteralRef(const std::string& file, int64_t offset, const Type& type)>
      literal_in_file = {};
  bool verify = true;  // false: only errors of parsing and inference
};

// True if the bytes begin like the text of a program.
bool looks_like_program(std::string_view bytes);

// Parses and infers a program; types in the text are optional and must equal the inferred ones.
// Errors are InvalidModel "file:line:column: …", with the line and a caret as notes.
std::unique_ptr<Program> parse_program(std::string_view text, const ParseOptions& options = {});

// A type in the spelling of the text form: "f32[batch, 2*n]". Unknown symbols become bound ones if
// `declares`, else they are errors. InvalidModel.
Type parse_type(std::string_view text, Program& program, bool declares);

// Options that resolve every literal of `program`, for printing and parsing it again.
ParseOptions with_literals_of(const Program& program);

}  // namespace lathe
