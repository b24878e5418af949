// SPDX-License-Identifier: MIT
// Compiled files (`.lathe`) of groups: their program and the places of its values among those of
// the fused node.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "import/compiled/compiled_file.h"
#include "import/onnx/graph_view.h"
#include "targets/compile.h"

namespace lathe::ort_plugin {

// A compiled group and the places of its values among the fused node's.
struct GroupPlan {
  std::shared_ptr<const Plan> plan;
  CompileOptions options;
  std::vector<size_t> inputs;   // for each parameter
  std::vector<size_t> outputs;  // for each result
};

// The values of a node that runs a group.
struct Boundary {
  std::vector<onnx::ValueInfo> inputs;
  std::vector<onnx::ValueInfo> outputs;
};

// `digest`: of what the group was compiled from (model_digest.h).
void save_group(const GroupPlan& group, std::string_view digest,
                const std::function<void(std::string_view)>& write);

// The digest that the file's group was saved with. InvalidModel for other compiled files.
std::string digest_of(const CompiledFile& file);

// The group, for a node with these values. InvalidModel for another file, and for one
// whose types are not the node's. Compiles nothing and packs nothing unless the file is of another
// processor.
GroupPlan load_group(const CompiledFile& file, const Boundary& node, const CompileOptions& options);

}  // namespace lathe::ort_plugin
