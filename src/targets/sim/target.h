// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#include "targets/sim/device.h"
#include "targets/target.h"

namespace lathe {

// The reference kernels on a device that exists everywhere, for tests: memory that faults on the
// host, work that runs late. `mixed` refuses every third op, so that values cross memories.
class SimTarget final : public Target {
 public:
  // `seed` determines the delays.
  explicit SimTarget(bool mixed, uint64_t seed = 20240229) : mixed_(mixed), device_(seed) {}
  std::string_view name() const override { return mixed_ ? "sim:mixed" : "sim"; }
  std::string_view doc() const override;
  std::string supports(const Instruction& instruction) const override;
  KernelChoice select(const Instruction& instruction, Constants constants) const override;
  bool expands(const Instruction& instruction) const override;
  std::unique_ptr<const Kernel> dims_kernel(std::vector<DimId> dims) const override;
  std::unique_ptr<const Kernel> copy_kernel() const override;
  const Device* device() const override { return &device_; }

 private:
  bool mixed_;
  sim::SimDevice device_;
};

}  // namespace lathe
