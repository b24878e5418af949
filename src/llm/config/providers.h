// SPDX-License-Identifier: MIT
// The target of each ONNX Runtime provider: the only table of provider names.
#pragma once

#include <span>
#include <string_view>

namespace lathe::llm {

struct Provider {
  std::string_view name;    // as in configurations, without "ExecutionProvider"
  std::string_view target;  // "cpu" or "gpu"
  bool plugin = false;      // Lathe's plug-in for ONNX Runtime can be registered by this name
};

std::span<const Provider> providers();
// Ignores case and the suffix "ExecutionProvider"; null for unknown names.
const Provider* find_provider(std::string_view name);

}  // namespace lathe::llm
