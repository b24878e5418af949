// SPDX-License-Identifier: MIT
// The command line of bench_runtime.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "targets/target.h"

namespace lathe::bench {

// A model file or folder, and its name in the table.
struct Model {
  std::string name;
  std::string path;
};

struct Settings {
  std::vector<Model> models;
  std::vector<Model> decoders;
  std::map<std::string, int64_t> dims;  // sizes of symbolic dims of models; others are 1
  std::shared_ptr<const Target> target;
  ThreadPool* pool = nullptr;  // of the rows over models and decoders
};

}  // namespace lathe::bench
