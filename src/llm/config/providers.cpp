// SPDX-License-Identifier: MIT
#include "llm/config/providers.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace lathe::llm {
namespace {

constexpr auto kProviders = std::to_array<Provider>({{"AMDGPU", "gpu", true},
                                                     {"CPU", "cpu"},
                                                     {"CUDA", "gpu"},
                                                     {"DML", "gpu"},
                                                     {"lathe", "cpu", true},
                                                     {"MIGraphX", "gpu", true},
                                                     {"NvTensorRtRtx", "gpu"},
                                                     {"OpenVINO", "cpu"},
                                                     {"QNN", "cpu"},
                                                     {"ROCM", "gpu", true},
                                                     {"RyzenAI", "cpu"},
                                                     {"TensorRT", "gpu"},
                                                     {"VitisAI", "cpu"},
                                                     {"WebGPU", "gpu"},
                                                     {"XNNPACK", "cpu"}});

bool alike(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const Provider> providers() { return kProviders; }

const Provider* find_provider(std::string_view name) {
  constexpr std::string_view kSuffix = "ExecutionProvider";
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  const auto* at =
      std::ranges::find_if(kProviders, [&](const Provider& p) { return alike(p.name, name); });
  return at == kProviders.end() ? nullptr : at;
}

}  // namespace lathe::llm
