// SPDX-License-Identifier: MIT
// Values of a program's inputs: from files, constant, or random.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/image.h"
#include "ir/program.h"
#include "runtime/sizes.h"
#include "tensor/box.h"

namespace lathe::cli {

// The flags about inputs.
struct InputArguments {
  std::vector<std::string> files;  // FILE or NAME=FILE
  std::vector<std::string> fills;  // input=value or dim=value
  ImageOptions image;

  void declare(CommandLine& line);
  // The names of inputs and dims in the flags.
  std::set<std::string, std::less<>> names() const;
};

struct Inputs {
  std::vector<Box> values;         // one per parameter of main
  std::vector<std::string> files;  // that were read
  // Sizes of symbols from files, --fill or choose_sizes.
  std::map<std::string, int64_t> symbols;
};

// Inputs without a flag are random, from `seed`; choose_sizes sets the remaining sizes.
// InvalidArgument for a name, file, type or shape that does not fit the program.
Inputs make_inputs(const Program& program, const InputArguments& arguments, uint64_t seed,
                   const SizeHints& hints = {});

// "image f32[1, 1, 8, 8]"
std::string describe_input(const Value& parameter, const Box& box);

}  // namespace lathe::cli
