// SPDX-License-Identifier: MIT
// What the ways to run a session share.
#pragma once

#include <atomic>

#include "base/error_reason.h"
#include "base/interrupt.h"
#include "capi/devices.h"
#include "capi/handles.h"
#include "capi/views.h"
#include "runtime/environment.h"

namespace lathe::capi {

class ForeignAllocator;
struct RetireAllocator {
  void operator()(ForeignAllocator* allocator) const noexcept;
};

// A session and what it uses; asynchronous runs share it.
struct OpenSession {
  std::shared_ptr<Environment> environment;
  std::unique_ptr<ForeignAllocator, RetireAllocator> allocator;
  std::shared_ptr<const std::vector<Box>> defaults;  // by input; null: none
  const lathe_device* device = nullptr;              // of the plan; null: the host
  std::vector<std::string> host_readers;             // by input: what reads it on the host
  std::vector<std::string> host_writers;             // by output
  std::atomic<bool> in_flight{false};                // an asynchronous run of a session with states
  std::unique_ptr<Session> session;

  const Program& program() const { return *session->plan().program; }
};

// Sets device, host_readers and host_writers.
void find_host_uses(OpenSession& session);
// Cancellation and deadline.
RunOptions to_run_options(const lathe_run_options& options);
// The caller's memory for a result.
Tensor memory_of_callback(const lathe_run_options& options, size_t index, ElementType type,
                          std::span<const int64_t> dims);
// The default of an input, or null.
const Box* default_of(const OpenSession& session, size_t input);
// InvalidArgument while an asynchronous run changes the states.
void check_idle(const OpenSession& session);
// InvalidArgument for the stream of another device than the plan's.
void check_stream(const OpenSession& session, const lathe_stream& stream);
// Runs on this thread.
void run_views(OpenSession& session, const lathe_run_options& options,
               const Views<const lathe_view>& inputs, const Views<lathe_view>& outputs);

}  // namespace lathe::capi

struct lathe_session {
  std::shared_ptr<lathe::capi::OpenSession> open;
};
