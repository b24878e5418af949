// SPDX-License-Identifier: MIT
// What the two ways to run a session share.
#pragma once

#include "base/error_reason.h"
#include "base/interrupt.h"
#include "capi/handles.h"
#include "runtime/environment.h"

namespace lathe::capi {

class ForeignAllocator;
struct RetireAllocator {
  void operator()(ForeignAllocator* allocator) const noexcept;
};

}  // namespace lathe::capi

struct lathe_session {
  std::shared_ptr<lathe::Environment> environment;
  std::unique_ptr<lathe::capi::ForeignAllocator, lathe::capi::RetireAllocator> allocator;
  std::shared_ptr<const std::vector<lathe::Box>> defaults;
  std::unique_ptr<lathe::Session> session;
};

namespace lathe::capi {

// Cancellation and deadline.
RunOptions to_run_options(const lathe_run_options& options);
// The caller's memory for a result.
Tensor memory_of_callback(const lathe_run_options& options, size_t index, ElementType type,
                          std::span<const int64_t> dims);
// The default of an input, or null.
const Box* default_of(const lathe_session& session, size_t input);
[[noreturn]] void fail_missing_input(const lathe_session& session, size_t input);

}  // namespace lathe::capi
