// SPDX-License-Identifier: MIT
#include "targets/cpu/steps.h"

#include <algorithm>
#include <map>

#include "base/thread_scratch.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {

Steps::Steps(const Instruction& region, Isa isa) {
  std::map<const Value*, int> places;
  for (const auto& parameter : region.bodies()[0]->parameters()) {
    places.emplace(parameter.get(), static_cast<int>(places.size()));
  }
  for (const auto& instruction : region.bodies()[0]->instructions()) {
    const KernelEntry* entry = find_entry(instruction->op());
    Step step{(entry == nullptr ? kElementwise : *entry).make(*instruction, {}, isa).kernel,
              {},
              instruction->result()->type().element};
    for (const Value* operand : instruction->operands()) {
      step.operands.push_back(operand == nullptr ? -1 : places.at(operand));
    }
    places.emplace(instruction->result(), static_cast<int>(places.size()));
    steps_.push_back(std::move(step));
  }
}

void Steps::run(const LaunchArgs& args) const {
  const TensorView& y = *args.out[0];
  std::vector<const TensorView*> values(args.in.begin(), args.in.end());
  std::vector<std::span<const int32_t>> dims(args.in_dims.begin(), args.in_dims.end());
  std::vector<ScratchBlock> memory;
  std::vector<TensorView> made(steps_.size(), dense_strides_of(y));
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    made[i].type = step.type;
    if (i + 1 < steps_.size()) {
      memory.emplace_back(bytes_for(step.type, y.count()));
      made[i].data = memory.back().data();
    } else {
      made[i] = y;
    }
    std::vector<const TensorView*> in;
    std::vector<std::span<const int32_t>> in_dims;
    for (const int operand : step.operands) {
      in.push_back(operand < 0 ? nullptr : values[static_cast<size_t>(operand)]);
      in_dims.push_back(operand < 0 ? std::span<const int32_t>()
                                    : dims[static_cast<size_t>(operand)]);
    }
    TensorView* const out = &made[i];
    LaunchArgs own = args;
    own.in = in;
    own.in_dims = in_dims;
    own.out = std::span(&out, 1);
    const ScratchBlock workspace(step.kernel->workspace_bytes(own));
    own.workspace = workspace.data();
    step.kernel->launch(own);
    values.push_back(&made[i]);
    dims.push_back(args.out_dims[0]);
  }
}

}  // namespace lathe::cpu
