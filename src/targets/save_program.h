// SPDX-License-Identifier: MIT
// Writes compiled files (`.lathe`), which import/compiled/ reads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/folder.h"
#include "targets/compile.h"

namespace lathe {

struct SavedProgram {
  std::string name;
  const Plan* plan = nullptr;
  CompileOptions options{};  // with which compile() made the plan
};

// A graph of a model folder. Its constants above 1 MiB are missing unless a program has them.
struct SavedGraph {
  std::string name;
  const Program* program = nullptr;
};

struct SavedSizes {
  int64_t file = 0;
  int64_t constants = 0;  // stored as they are
  int64_t packed = 0;     // packed weights
  // Constants beside a packed form that has no exact inverse; part of `constants`.
  int64_t stored_twice = 0;
};

// Writes plans over one store of constants, and graphs and files of a model folder.
SavedSizes save_programs(const std::vector<SavedProgram>& programs,
                         const std::vector<SavedGraph>& graphs, const MemoryFiles& files,
                         const std::function<void(std::string_view)>& write);
// As evaluate_deferred(), and replaces literals of files by literals.
void make_self_contained(Program& program);
// Writes the plan of a graph.
SavedSizes save_program(const Plan& plan, const CompileOptions& options,
                        const std::function<void(std::string_view)>& write);
// Writes the file atomically: a failure leaves no partial file.
SavedSizes save_program(const Plan& plan, const CompileOptions& options, const std::string& path);

}  // namespace lathe
