// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "targets/gpu/device.h"
#include "targets/gpu/driver/host.h"
#include "targets/target.h"

namespace lathe {

// NVIDIA's and AMD's GPUs, from one source. Instructions without a kernel run on `cpu`.
class GpuTarget final : public Target {
 public:
  // `name`: "gpu", "cuda:1", "gpu:host".
  GpuTarget(std::string name, std::shared_ptr<gpu::Driver> driver, int64_t memory_limit,
            const std::string& cache);
  GpuTarget(std::string name, std::shared_ptr<const gpu::GpuDevice> device);
  std::string_view name() const override { return name_; }
  std::string_view doc() const override;
  std::string supports(const Instruction& instruction) const override;
  KernelChoice select(const Instruction& instruction, Constants constants) const override;
  bool expands(const Instruction& instruction) const override;
  std::string why_no_epilogue(const Instruction& anchor, const Instruction& next,
                              int operand) const override;
  std::string why_not_fused(const Instruction& elementwise) const override;
  LayoutUse layout_use(const Instruction& instruction) const override;
  std::unique_ptr<const Kernel> dims_kernel(std::vector<DimId> dims) const override;
  std::unique_ptr<const Kernel> copy_kernel() const override;
  const Device* device() const override { return device_.get(); }
  const gpu::GpuDevice& gpu_device() const { return *device_; }

 private:
  std::string name_;
  std::shared_ptr<const gpu::GpuDevice> device_;
};

namespace gpu {

// The targets of a process: one per name, over one device per card ("gpu", "cuda" and "cuda:0" are
// names of one card, whose device is "cuda:0").
class TargetTable {
 public:
  // The driver of a vendor's device; null if there is none, and then it states why.
  using OpenDriver =
      std::function<std::shared_ptr<Driver>(Vendor vendor, int device, std::string* reason)>;
  explicit TargetTable(OpenDriver open) : open_(std::move(open)) {}
  // As find_gpu_target (targets/gpu_library.h).
  std::shared_ptr<const Target> find(std::string_view name, std::string* reason);

 private:
  std::shared_ptr<const GpuDevice> find_device(Vendor vendor, int device, std::string* reason);

  OpenDriver open_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Target>, std::less<>> targets_;
  std::map<std::string, std::shared_ptr<const GpuDevice>> devices_;
};

// Finds a target in the process's table.
std::shared_ptr<const Target> open_target(std::string_view name, std::string* reason);
}  // namespace gpu

}  // namespace lathe
