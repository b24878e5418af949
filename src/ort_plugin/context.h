// SPDX-License-Identifier: MIT
// Compiled contexts: nodes EPContext, each with the compiled file of a group, in the model or
// beside it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "import/compiled/compiled_file.h"
#include "import/onnx/graph_view.h"
#include "ort_plugin/group_file.h"
#include "ort_plugin/host.h"
#include "ort_plugin/options.h"
#include "targets/compile.h"

namespace lathe::ort_plugin {

inline constexpr std::string_view kContextOp = "EPContext";

// Where a session writes contexts, from its entries "ep.context_…".
struct ContextOptions {
  bool enabled = false;
  bool embedded = false;
  std::string path;  // of the model with contexts; "": beside the session's model
};
// InvalidArgument for a value that is not known.
ContextOptions context_options(const Entries& entries);

// The node of a fused node in the model with contexts; the host takes it over. Writes
// a file beside that model unless contexts are embedded. `model`: path of the session's model.
OrtNode* make_context(const Host& host, const OrtNode& fused, const GroupPlan& group,
                      const ContextOptions& options, const std::string& model);

// True for a node that make_context() returned, to an EP of any of the library's names.
bool is_own_context(const onnx::Node& node);
// The file of such a node. `model`: path of its model, beside which files are; `owner`: of the
// node's texts. InvalidModel.
std::shared_ptr<const CompiledFile> open_context(const onnx::Node& node, const std::string& model,
                                                 std::shared_ptr<const void> owner);

// What contexts depend on: build, target and machine.
std::string compatibility(const CompileOptions& options);
// The verdict about a text of compatibility().
OrtCompiledModelCompatibility verdict(std::string_view text);

}  // namespace lathe::ort_plugin
