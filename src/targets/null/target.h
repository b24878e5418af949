// SPDX-License-Identifier: MIT
#pragma once

#include "targets/target.h"

namespace lathe {

// Compiles everything; kernels write zeros. With `asynchronous`, reference kernels run on the
// queue's thread after random delays, to reveal missing waits in the executor.
class NullTarget final : public Target {
 public:
  explicit NullTarget(bool asynchronous) : asynchronous_(asynchronous) {}
  std::string_view name() const override { return asynchronous_ ? "null:async" : "null"; }
  std::string_view doc() const override;
  KernelChoice select(const Instruction& instruction, Constants constants) const override;
  bool expands(const Instruction& instruction) const override;
  std::unique_ptr<Queue> make_queue() const override;
  bool computes() const override { return asynchronous_; }

 private:
  bool asynchronous_;
};

}  // namespace lathe
