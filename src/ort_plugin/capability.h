// SPDX-License-Identifier: MIT
// Which nodes of a graph Lathe claims.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ort_plugin/graph_reader.h"
#include "ort_plugin/options.h"

namespace lathe::ort_plugin {

struct Refusal {
  std::string node;  // "node 57 (Conv 'name')"
  std::string reason;
};

struct Claims {
  std::vector<std::vector<const OrtNode*>> groups;
  size_t nodes = 0;                // without those that another EP has
  size_t claimed = 0;              // of them
  const OrtNode* first = nullptr;  // of them; null: none
  std::vector<Refusal> refusals;
  // Inputs of groups without a known rank.
  std::set<std::string> unranked;
  bool is_body = false;
  std::string graph;  // its name
};

// Claims without compiling. `folder`: of external data of models without a path.
Claims find_claims(const Host& host, const OrtGraph& graph, const EpOptions& options,
                   const std::string& folder);

// The claims in one line: "claims 40 of 42 nodes in 3 groups; …" with the first refusals.
std::string summary(const Claims& claims);

}  // namespace lathe::ort_plugin
