// SPDX-License-Identifier: MIT
#include "targets/gpu/target.h"

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
    : GpuTarget(name,
                std::make_shared<gpu::GpuDevice>(std::move(driver), name, memory_limit, cache)) {}

GpuTarget::GpuTarget(std::string name, std::shared_ptr<const gpu::GpuDevice> device)
    : name_(std::move(name)), device_(std::move(device)) {}

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
    return {gpu::make_state_kernel(*device_, instruction), ""};
  }
  std::string reason = supports(instruction);
  if (!reason.empty()) return {nullptr, std::move(reason)};
  return gpu::find_entry(instruction.op())->make(*device_, instruction, constants);
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
    return anchor.op() == ops::conv && gpu::is_channels_last(*device_, anchor)
               ? LayoutUse::channels_last
               : LayoutUse::as_type;
  }
  if (op == ops::conv && gpu::is_channels_last(*device_, instruction)) {
    return LayoutUse::channels_last;
  }
  if (op == ops::attention) return LayoutUse::any_rows;
  const bool follows = is_elementwise(op) || is_any_of(op, {&ops::max_pool, &ops::average_pool});
  return follows ? LayoutUse::follows : LayoutUse::as_type;
}

std::unique_ptr<const Kernel> GpuTarget::dims_kernel(std::vector<DimId> dims) const {
  return gpu::make_dims_kernel(*device_, std::move(dims));
}

std::unique_ptr<const Kernel> GpuTarget::copy_kernel() const {
  return gpu::make_copy_kernel(*device_);
}

namespace gpu {
namespace {

std::shared_ptr<Driver> open_driver(Vendor vendor, int device, std::string* reason) {
  if (vendor != Vendor::host) return open_native_driver(vendor, device, reason);
  constexpr int kMultiprocessors = 132;  // of the device whose launches are counted
  return settings().count ? make_host_driver({.count = true, .multiprocessors = kMultiprocessors})
                          : make_host_driver();
}

std::vector<Vendor> vendors_of(const GpuTargetName& name) {
  if (name.host) return {Vendor::host};
  if (name.vendor == "cuda") return {Vendor::cuda};
  if (name.vendor == "hip") return {Vendor::hip};
  return {Vendor::cuda, Vendor::hip};
}

}  // namespace

std::shared_ptr<const GpuDevice> TargetTable::find_device(Vendor vendor, int device,
                                                          std::string* reason) {
  std::string name =
      vendor == Vendor::host ? "gpu:host" : fmt::format("{}:{}", to_string(vendor), device);
  std::shared_ptr<const GpuDevice>& known = devices_[name];
  if (known != nullptr) return known;
  std::shared_ptr<Driver> driver = open_(vendor, device, reason);
  if (driver == nullptr) return nullptr;
  return known = std::make_shared<GpuDevice>(std::move(driver), std::move(name),
                                             settings().memory_limit, CodeStore::default_folder());
}

std::shared_ptr<const Target> TargetTable::find(std::string_view name, std::string* reason) {
  const std::optional<GpuTargetName> parsed = parse_gpu_target(name);
  if (!parsed) return nullptr;
  const std::lock_guard lock(mutex_);
  if (const auto at = targets_.find(name); at != targets_.end()) return at->second;
  std::string reasons;
  for (const Vendor vendor : vendors_of(*parsed)) {
    std::string why;
    if (auto device = find_device(vendor, parsed->device, &why)) {
      std::string own(name);
      return targets_[own] = std::make_shared<GpuTarget>(own, std::move(device));
    }
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", why);
  }
  if (reason != nullptr) *reason = std::move(reasons);
  return nullptr;
}

std::shared_ptr<const Target> open_target(std::string_view name, std::string* reason) {
  static auto& table = *new TargetTable(open_driver);
  return table.find(name, reason);
}

}  // namespace gpu

}  // namespace lathe
