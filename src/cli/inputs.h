// SPDX-License-Identifier: MIT
// Values for a program's inputs: from files, filled, or random.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/image.h"
#include "cli/sizes.h"
#include "ir/program.h"
#include "tensor/box.h"

namespace lathe::cli {

// What the user said about inputs.
struct InputArguments {
  std::vector<std::string> files;  // FILE or NAME=FILE
  std::vector<std::string> fills;  // input=value or dim=value
  ImageOptions image;

  void declare(CommandLine& line);
  // What stands before '=' anywhere: inputs that are given, and dims.
  std::set<std::string, std::less<>> names() const;
};

struct Inputs {
  std::vector<Box> values;         // one per parameter of main
  std::vector<std::string> files;  // that were read
  // Extents of symbols as bound by files, --fill or by default.
  std::map<std::string, int64_t> symbols;
};

// InvalidArgument where a name, file, type or extent does not fit the program. What is not given is
// random, from `seed`; sizes that nothing tells are chosen by choose_sizes.
Inputs make_inputs(const Program& program, const InputArguments& arguments, uint64_t seed,
                   const SizeHints& hints = {});

// "image f32[1, 1, 8, 8]"
std::string describe_input(const Value& parameter, const Box& box);

}  // namespace lathe::cli
