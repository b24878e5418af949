// SPDX-License-Identifier: MIT
// The execution provider of one session.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "ort_plugin/capability.h"
#include "ort_plugin/context.h"
#include "ort_plugin/group.h"
#include "ort_plugin/group_store.h"
#include "ort_plugin/host.h"
#include "ort_plugin/options.h"

namespace lathe::ort_plugin {

struct FusedModel;

class Ep final : public OrtEp {
 public:
  // Reads the session's configuration. Errors of read_options. `memory`: the target in whose
  // device's memory the host keeps values; null: in its own.
  Ep(const Host& host, std::string name, const Entries& entries, const OrtLogger* logger,
     const Target* memory);

 private:
  void claim(const OrtGraph& graph, OrtEpGraphSupportInfo& info);
  // A compiled group; the host releases it. `context` (null: none) receives its EPContext node.
  OrtNodeComputeInfo* compile(const OrtGraph& graph, const OrtNode& fused, OrtNode** context);
  GroupPlan make_group(FusedModel fused);
  CompileOptions compile_options() const;
  void report(const Claims& claims);

  const Host& host_;
  std::string name_;
  Log log_;
  EpOptions options_;
  GroupStore store_;
  ContextOptions contexts_;
  std::string compatibility_;
  std::string folder_;  // of external data of models without a path
  GroupOptions group_options_;
  std::set<std::string> unranked_;
  std::string claimed_graph_;  // the first with claims
  std::string problem_;        // of a strict session: Compile reports it
  std::set<std::string> reported_;
};

}  // namespace lathe::ort_plugin
