// SPDX-License-Identifier: MIT
#include "targets/gpu/kernel.h"

#include <algorithm>

#include "targets/gpu/expression.h"

namespace lathe::gpu {

std::string why_no_type(const Type& type) {
  if (!type.is_tensor() || !type.is_ranked() || type.is_boxed()) {
    return fmt::format("{} is not a plain tensor of known rank", type.to_string());
  }
  return type_name(type.element).empty()
             ? fmt::format("device code has no {}", to_string(type.element))
             : "";
}

std::string why_no_types(const Instruction& instruction) {
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) continue;
    std::string reason = why_no_type(operand->type());
    if (!reason.empty()) return fmt::format("'%{}': {}", operand->name(), reason);
  }
  for (const Value& result : instruction.results()) {
    std::string reason = why_no_type(result.type());
    if (!reason.empty()) return fmt::format("'%{}': {}", result.name(), reason);
  }
  return instruction.found().empty() ? "" : "only the kernel finds the result's shape";
}

void launch_code(const GpuDevice& device, const Code& code, const LaunchArgs& args,
                 const Arguments& arguments, const std::array<uint32_t, 3>& grid, uint32_t threads,
                 Overlap overlap) {
  auto* stream = static_cast<GpuStream*>(args.stream);
  const bool overlaps = overlap != Overlap::none && stream->latest() != GpuStream::Latest::other;
  device.driver().launch(stream->handle(),
                         {code.function(), grid, threads, arguments.bytes(), overlaps});
  stream->set_latest(overlap == Overlap::product ? GpuStream::Latest::product
                                                 : GpuStream::Latest::launch);
}

uint32_t blocks_for(const GpuDevice& device, int64_t count, uint32_t threads) {
  constexpr int64_t kBlocksPerMultiprocessor = 16;
  const int64_t most = device.driver().limits().multiprocessors * kBlocksPerMultiprocessor;
  return static_cast<uint32_t>(std::clamp<int64_t>((count + threads - 1) / threads, 1, most));
}

}  // namespace lathe::gpu
