// SPDX-License-Identifier: MIT
// Compiled groups in files between sessions: a folder that sessions share, and the files that the
// options of the MIGraphX EPs name.
#pragma once

#include <optional>
#include <string>

#include "ort_plugin/group_file.h"
#include "ort_plugin/host.h"
#include "ort_plugin/options.h"

namespace lathe::ort_plugin {

class GroupStore {
 public:
  // Creates the folder of option cache_dir, for its owner alone. Io. A folder that others own or
  // can write is not used, which is a warning.
  GroupStore(const EpOptions& options, const Log& log);
  // False: no option names files.
  bool is_used() const;

  // Starts the session's next group, which load() and save() are about: its graph, and the places
  // of its values among those of the fused node.
  void begin(const onnx::Model& model, const std::vector<size_t>& inputs,
             const std::vector<size_t>& outputs, const CompileOptions& options);
  // Null if no file has the group. One that cannot be used is a warning; with option strict, one
  // of option load_compiled_model is an error.
  std::optional<GroupPlan> load(const Boundary& node, const CompileOptions& options) const;
  // Writes the file of option save_compiled_model. Io.
  void save(const GroupPlan& group) const;
  // Writes to cache_dir. A failure is a warning.
  void keep(const GroupPlan& group) const;

 private:
  std::optional<GroupPlan> open(const std::string& path, const Boundary& node,
                                const CompileOptions& options) const;
  void write(const GroupPlan& group, const std::string& path) const;
  std::string cached() const;
  std::string numbered(const std::string& path) const;

  const EpOptions& options_;
  const Log& log_;
  std::string cache_;  // "": none
  int count_ = 0;      // groups begun
  std::string digest_;
};

}  // namespace lathe::ort_plugin
