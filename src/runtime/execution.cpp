// SPDX-License-Identifier: MIT
#include "runtime/execution.h"

namespace lathe {
namespace {

class SharedExecutions final : public PlanScratch {
 public:
  ExecutionPool pool;
};

}  // namespace

Execution::Execution(const Plan& plan, Allocator& host)
    : context_(host, plan.device),
      frame_(plan, 0, context_),
      arguments_(plan.program->main().parameters().size()) {
  context_.symbols.assign(plan.symbols.size(), -1);
}

bool Execution::lend(MemoryBudget& host, MemoryBudget* device) {
  if (!context_.scratch.lend(host)) return false;
  if (device == nullptr || context_.device_scratch.lend(*device)) return true;
  context_.scratch.take_back();
  return false;
}

void Execution::take_back() noexcept {
  frame_.drop_boxes();
  context_.scratch.take_back();
  context_.device_scratch.take_back();
}

ExecutionPool& idle_executions(const Plan& plan) {
  std::call_once(plan.scratch_made, [&] { plan.scratch = std::make_unique<SharedExecutions>(); });
  return static_cast<SharedExecutions&>(*plan.scratch).pool;
}

}  // namespace lathe
