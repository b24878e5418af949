// SPDX-License-Identifier: MIT
// Modules of a program, for building and reading them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capi/handles.h"

namespace lathe::capi {

// One entry of module_at; lathe_instruction_info points into it.
struct InstructionRecord {
  std::string op;
  std::string name;
  std::string attributes;
  std::vector<size_t> operands;
  std::vector<size_t> results;
  std::vector<std::string> texts;
  std::vector<const char*> types;
  std::vector<lathe_module*> bodies;
  const Tensor* literal = nullptr;
};

}  // namespace lathe::capi

// Values are numbered in the order in which the handle met them. The program's mutex guards the
// records, which readers make.
struct lathe_module {
  lathe_program* program = nullptr;
  lathe::Module* module = nullptr;
  bool has_returned = false;
  bool is_body = false;  // of an instruction
  std::vector<lathe::Value*> values{};
  std::map<const lathe::Value*, size_t> numbers{};
  std::optional<std::vector<lathe::capi::InstructionRecord>> records{};
};

namespace lathe::capi {

// The handle of a module of the program, made at the first request.
lathe_module& module_handle(lathe_program& program, Module& module);
// Moves a handle to the module of its name in the program's changed copy.
void point_to(lathe_module& handle, const Program& changed);

}  // namespace lathe::capi
