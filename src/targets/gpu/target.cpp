// SPDX-License-Identifier: MIT
#include "targets/gpu/target.h"

#include <map>
#include <mutex>

#include "base/error.h"
#include "base/os_environment.h"
#include "ir/ops.h"
#include "passes/fuse_regions.h"
#include "targets/gpu/anchor.h"
#include "targets/gpu/conv_library.h"
#include "targets/gpu/kernel.h"
#include "targets/gpu/settings.h"
#include "targets/gpu_library.h"

namespace lathe {

GpuTarget::GpuTarget(std::string name, std::shared_ptr<gpu::Driver> driver, int64_t memory_limit,
                     const std::string& cache)
    : name_(std::move(name)), device_(std::move(driver), name_, memory_limit, cache) {}

std::string_view GpuTarget::doc() const {
  return "NVIDIA and AMD GPUs; ops without a kernel run on cpu";
}

std::string GpuTarget::supports(const Instruction& instruction) const {
  if (instruction.op().structural != Structural::none) {
    return instruction.op().structural == Structural::literal ? "" : gpu::why_no_types(instruction);
  }
  const gpu::KernelEntry* entry = gpu::find_entry(instruction.op());
  return entry != nullptr ? entry->why_not(instruction)
                          : fmt::format("no GPU kernel for {}", instruction.op().name);
}

KernelChoice GpuTarget::select(const Instruction& instruction, Constants constants) const {
  const Structural structural = instruction.op().structural;
  if (structural == Structural::state_append || structural == Structural::state_replace) {
    return {gpu::make_state_kernel(device_, instruction), ""};
  }
  std::string reason = supports(instruction);
  if (!reason.empty()) return {nullptr, std::move(reason)};
  return gpu::find_entry(instruction.op())->make(device_, instruction, constants);
}

bool GpuTarget::expands(const Instruction& instruction) const {
  return instruction.op().expand != nullptr && !supports(instruction).empty();
}

std::string GpuTarget::why_no_epilogue(const Instruction& anchor, const Instruction& next,
                                       int operand) const {
  return gpu::why_no_epilogue(anchor, next, operand);
}

std::string GpuTarget::why_not_fused(const Instruction& elementwise) const {
  return gpu::why_not_fused(elementwise);
}

LayoutUse GpuTarget::layout_use(const Instruction& instruction) const {
  const Op& op = instruction.op();
  if (!supports(instruction).empty()) return LayoutUse::as_type;
  if (op == ops::region) {
    if (gpu::why_no_elementwise_region(instruction).empty()) return LayoutUse::follows;
    const Instruction& anchor = gpu::Anchor(instruction).anchor();
    return anchor.op() == ops::conv && gpu::is_channels_last(device_, anchor)
               ? LayoutUse::channels_last
               : LayoutUse::as_type;
  }
  if (op == ops::conv && gpu::is_channels_last(device_, instruction)) {
    return LayoutUse::channels_last;
  }
  const bool follows = is_elementwise(op) || is_any_of(op, {&ops::max_pool, &ops::average_pool});
  return follows ? LayoutUse::follows : LayoutUse::as_type;
}

std::unique_ptr<const Kernel> GpuTarget::dims_kernel(std::vector<DimId> dims) const {
  return gpu::make_dims_kernel(device_, std::move(dims));
}

std::unique_ptr<const Kernel> GpuTarget::copy_kernel() const {
  return gpu::make_copy_kernel(device_);
}

namespace {

std::shared_ptr<gpu::Driver> open(const GpuTargetName& name, std::string* reason) {
  if (name.host) {
    constexpr int kMultiprocessors = 132;  // of the device whose launches are counted
    return gpu::settings().count
               ? gpu::make_host_driver({.count = true, .multiprocessors = kMultiprocessors})
               : gpu::make_host_driver();
  }
  std::shared_ptr<gpu::Driver> driver;
  if (name.vendor != "hip") {
    driver = gpu::open_native_driver(gpu::Vendor::cuda, name.device, reason);
  }
  if (driver == nullptr && name.vendor != "cuda") {
    std::string other;
    driver = gpu::open_native_driver(gpu::Vendor::hip, name.device, &other);
    if (reason != nullptr && driver == nullptr) {
      *reason = reason->empty() ? other : fmt::format("{}; {}", *reason, other);
    }
  }
  return driver;
}

}  // namespace

std::shared_ptr<const Target> gpu::open_target(std::string_view name, std::string* reason) {
  const std::optional<GpuTargetName> parsed = parse_gpu_target(name);
  if (!parsed) return nullptr;
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::shared_ptr<const Target>, std::less<>>;
  const std::lock_guard lock(mutex);
  if (const auto at = known.find(name); at != known.end()) return at->second;
  std::string why;
  const std::shared_ptr<gpu::Driver> driver = open(*parsed, &why);
  if (driver == nullptr) {
    if (reason != nullptr) *reason = why;
    return nullptr;
  }
  auto target = std::make_shared<GpuTarget>(std::string(name), driver, gpu::settings().memory_limit,
                                            gpu::CodeStore::default_folder());
  known.emplace(std::string(name), target);
  return target;
}

}  // namespace lathe
