// SPDX-License-Identifier: MIT
// What a run gave: as text, and as files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "tensor/box.h"

namespace lathe::cli {

struct OutputArguments {
  std::vector<std::string> files;
  std::string labels;
  int64_t top = 0;

  void declare(CommandLine& line);
  // Before anything is computed: InvalidArgument for a file of unknown kind, of a kind that cannot
  // hold these outputs, or that is one of `inputs`.
  void check_files(std::span<const std::string> names, std::span<const std::string> inputs) const;
};

struct NamedOutputs {
  std::span<const std::string> names;
  std::span<const Box> values;
};

// Prints values, or the largest of each row where the arguments ask for that.
void print_outputs(const NamedOutputs& outputs, const OutputArguments& arguments, Output& out);
// Writes each file whole or not at all.
void write_outputs(const NamedOutputs& outputs, const OutputArguments& arguments);

// The values, nested as the extents are; beyond 200 elements only the ends of each axis.
std::string values_text(const Tensor& tensor, std::string_view indent);

}  // namespace lathe::cli
