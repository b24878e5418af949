// SPDX-License-Identifier: MIT
#include "base/interrupt.h"

#include "base/error.h"

namespace lathe {
namespace {

constexpr std::chrono::milliseconds kInterval(50);

thread_local constinit InterruptScope* innermost = nullptr;

}  // namespace

InterruptScope::InterruptScope(Poll poll, void* context)
    : poll_(poll), context_(context), outer_(innermost) {
  if (poll == nullptr) return;
  last_ = std::chrono::steady_clock::now();
  innermost = this;
}

InterruptScope::~InterruptScope() {
  if (poll_ != nullptr) innermost = outer_;
}

void check_interrupt() {
  InterruptScope* scope = innermost;
  if (scope == nullptr) return;
  if (!scope->ended_) {
    const auto now = std::chrono::steady_clock::now();
    if (now - scope->last_ < kInterval) return;
    // The callback may call the library, which checks again.
    innermost = nullptr;
    int result = 1;
    try {
      result = scope->poll_(scope->context_);
    } catch (...) {
      innermost = scope;
      throw;
    }
    innermost = scope;
    scope->last_ = std::chrono::steady_clock::now();
    if (result == 0) return;
    scope->ended_ = true;
  }
  fail(ErrorKind::interrupted, "interrupted by the caller's {} callback", "poll");
}

}  // namespace lathe
