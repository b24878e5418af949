// SPDX-License-Identifier: MIT
// What a run borrows: the frames of a plan and their scratch memory.
#pragma once

#include <memory>
#include <vector>

#include "base/object_pool.h"
#include "runtime/frame.h"
#include "runtime/run_context.h"

namespace lathe {

class Execution {
 public:
  Execution(const Plan& plan, Allocator& host);
  // Charges the memory held to the borrower's budgets; false if that exceeds a limit.
  bool lend(MemoryBudget& host, MemoryBudget* device);
  void take_back() noexcept;

  RunContext& context() { return context_; }
  Frame& frame() { return frame_; }
  std::vector<Argument>& arguments() { return arguments_; }

 private:
  RunContext context_;
  Frame frame_;
  std::vector<Argument> arguments_;
};

using ExecutionPool = ObjectPool<Execution>;

// The idle executions of a plan over the host's allocator, shared by all its sessions.
ExecutionPool& idle_executions(const Plan& plan);

}  // namespace lathe
