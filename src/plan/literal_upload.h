// SPDX-License-Identifier: MIT
// The copies of a plan's literals to its device: they run while the plan is made.
#pragma once

#include <cstddef>
#include <memory>

#include "plan/device.h"

namespace lathe {

class LiteralUpload {
 public:
  LiteralUpload();
  ~LiteralUpload();
  LiteralUpload(const LiteralUpload&) = delete;
  LiteralUpload& operator=(const LiteralUpload&) = delete;

  // Nothing reads the source after the call.
  void copy(const Device& device, void* to, const void* from, size_t bytes);
  // Waits for the copies so far; throws the first failure.
  void settle();
  // Those of the plan that this thread is making, before a kernel reads constants of the device
  // when it is made.
  static void settle_current();

 private:
  std::unique_ptr<Stream> stream_;
  bool under_way_ = false;
  LiteralUpload* outer_;
};

}  // namespace lathe
