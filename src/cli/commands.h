// SPDX-License-Identifier: MIT
// The subcommands, one file each.
#pragma once

#include "cli/command_line.h"

namespace lathe::cli {

int chat(CommandLine& line);
int detokenize(CommandLine& line);
int doctor(CommandLine& line);
int embed(CommandLine& line);
int explain(CommandLine& line);
int generate(CommandLine& line);
int inspect(CommandLine& line);
int ops(CommandLine& line);
int perf(CommandLine& line);
int render_chat(CommandLine& line);
int run(CommandLine& line);
int tokenize(CommandLine& line);
int verify(CommandLine& line);

}  // namespace lathe::cli
