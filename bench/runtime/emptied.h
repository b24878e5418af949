// SPDX-License-Identifier: MIT
// Row over ONNX files: what the runtime adds to the launches of a plan, whose kernels do nothing.
#pragma once

#include "bench/runtime/line.h"
#include "bench/runtime/models.h"
#include "bench/runtime/settings.h"
#include "bench/runtime/time.h"
#include "plan/packing_source.h"
#include "plan/plan.h"

namespace lathe::bench {

inline int64_t emptied_launches = 0;

// A kernel without its body; memory is planned as for the kernel.
class EmptiedKernel final : public Kernel {
 public:
  explicit EmptiedKernel(std::unique_ptr<const Kernel> kernel) : kernel_(std::move(kernel)) {}
  std::string_view name() const override { return kernel_->name(); }
  void launch(const LaunchArgs& /*args*/) const override { ++emptied_launches; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    return kernel_->workspace_bytes(most);
  }
  bool uses_workspace() const override { return kernel_->uses_workspace(); }
  bool may_overwrite(int operand) const override { return kernel_->may_overwrite(operand); }
  bool reads(int operand) const override { return kernel_->reads(operand); }
  bool writes(int result) const override { return kernel_->writes(result); }

 private:
  std::unique_ptr<const Kernel> kernel_;
};

// Kernels that compute integers stay as they are: these may be sizes.
class EmptiedSource final : public KernelSource, public PackingSource {
 public:
  explicit EmptiedSource(std::shared_ptr<const Target> target)
      : target_(std::move(target)), packing_(dynamic_cast<const PackingSource*>(target_.get())) {}
  KernelChoice select(const Instruction& instruction, Constants constants) const override {
    KernelChoice choice = target_->select(instruction, constants);
    if (choice.kernel != nullptr && is_floating(instruction.result()->type().element)) {
      choice.kernel = std::make_unique<EmptiedKernel>(std::move(choice.kernel));
    }
    return choice;
  }
  std::unique_ptr<const Kernel> dims_kernel(std::vector<DimId> dims) const override {
    return target_->dims_kernel(std::move(dims));
  }
  std::unique_ptr<const Kernel> copy_kernel() const override {
    return std::make_unique<EmptiedKernel>(target_->copy_kernel());
  }
  const Device* device() const override { return target_->device(); }
  bool packs(const Instruction& instruction, int operand) const override {
    return packing_ != nullptr && packing_->packs(instruction, operand);
  }
  bool packs_source(const Instruction& instruction, int operand) const override {
    return packing_ != nullptr && packing_->packs_source(instruction, operand);
  }
  std::string machine() const override { return packing_ == nullptr ? "" : packing_->machine(); }

 private:
  std::shared_ptr<const Target> target_;
  const PackingSource* packing_;
};

inline Lines measure_emptied(const Settings& settings) {
  Lines lines;
  for (const Model& model : settings.models) {
    std::unique_ptr<Program> program = load_model(model.path);
    lower(*program, {.target = settings.target, .pool = settings.pool});
    const std::vector<Box> inputs = made_inputs(*program, settings);
    Session session(make_plan(std::move(program), EmptiedSource(settings.target)),
                    {.pool = settings.pool});
    emptied_launches = 0;
    session.run(inputs);
    const int64_t launches = emptied_launches;
    check(launches > 0, ErrorKind::internal, "no kernel of '{}' was emptied", model.path);
    const double seconds = fastest([&] { session.run(inputs); });
    lines.push_back({model.name, fmt::format("runtime per launch of {}, bodies emptied", launches),
                     1e6 * seconds / static_cast<double>(launches), "us"});
  }
  return lines;
}

}  // namespace lathe::bench
