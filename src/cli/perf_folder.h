// SPDX-License-Identifier: MIT
// Measures prefill and decode of a model folder.
#pragma once

#include <string>

#include "base/options.h"
#include "base/output.h"

namespace lathe::cli {

struct FolderMeasure {
  std::string folder;
  std::string overlay;
  int64_t prompt_tokens = 512;
  int64_t new_tokens = 64;
  int64_t sequences = 1;   // that generate together, each with a prompt of its own
  int64_t iterations = 3;  // measured runs
  int64_t warmup = 1;      // runs before them
  bool json = false;
};

// Generates, and launches nothing else.
void generate_once(const FolderMeasure& what, const Options& options);

// Prints the medians; returns the exit code.
int perf_folder(const FolderMeasure& what, const Options& options, Output& out);

}  // namespace lathe::cli
