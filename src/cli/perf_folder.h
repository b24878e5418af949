// SPDX-License-Identifier: MIT
// How fast a model folder reads prompts and answers.
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
  int64_t repeats = 3;
  bool json = false;
};

int perf_folder(const FolderMeasure& what, const Options& options, Output& out);

}  // namespace lathe::cli
