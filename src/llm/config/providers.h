// SPDX-License-Identifier: MIT
// Which target serves what an ONNX Runtime provider was asked for: the one table of provider names.
#pragma once

#include <span>
#include <string_view>

namespace lathe::llm {

struct Provider {
  std::string_view name;    // as configurations spell it, without "ExecutionProvider"
  std::string_view target;  // "cpu" or "gpu"
};

std::span<const Provider> providers();
// Any case, with or without "ExecutionProvider"; null if there is none of that name.
const Provider* find_provider(std::string_view name);

}  // namespace lathe::llm
