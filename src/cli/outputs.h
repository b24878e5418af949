// SPDX-License-Identifier: MIT
// Outputs of a run: as text and as files.
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
  // Before the run: InvalidArgument for a file of an unknown format, of a format that cannot hold
  // these outputs, or that is one of `inputs`; Io for a missing folder.
  void check_files(std::span<const std::string> names, std::span<const std::string> inputs) const;
};

// InvalidArgument for a folder or one of `inputs`, Io if the file's folder does not exist.
void check_output_file(std::string_view flag, const std::string& path,
                       std::span<const std::string> inputs);

struct NamedOutputs {
  std::span<const std::string> names;
  std::span<const Box> values;
};

// Prints the values, or with --top the largest of each row.
void print_outputs(const NamedOutputs& outputs, const OutputArguments& arguments, Output& out);
// Writes each file completely or not at all.
void write_outputs(const NamedOutputs& outputs, const OutputArguments& arguments);

// The values in nested brackets; beyond 200 elements only the ends of each axis.
std::string values_text(const Tensor& tensor, std::string_view indent);

}  // namespace lathe::cli
