// SPDX-License-Identifier: MIT
#include "capi/commands.h"

#include <mutex>

#include "base/error_reason.h"
#include "capi/handles.h"

namespace lathe::capi {
namespace {

constinit CommandRunner command_runner = nullptr;
constinit std::mutex running;

lathe_error* run(const char* const* arguments, size_t count, int* exit_code) {
  return guarded([&] {
    demand(exit_code, "exit_code");
    check(arguments != nullptr || count == 0, ErrorKind::invalid_argument,
          "argument '{}' is NULL for {} arguments", "arguments", count);
    check(command_runner != nullptr, ErrorKind::unsupported,
          "this library has no {}: use the program", "command line");
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i) {
      texts.emplace_back(&demand(arguments[i], fmt::format("arguments[{}]", i)));
    }
    const std::unique_lock lock(running, std::try_to_lock);
    check(lock.owns_lock(), {ErrorKind::invalid_argument, reason::kBusy},
          "a command is running: '{}' must wait for it", count == 0 ? "" : escape(texts[0]));
    *exit_code = command_runner(std::move(texts));
  });
}

}  // namespace

bool set_command_runner(CommandRunner runner) {
  command_runner = runner;
  return true;
}

void add_commands(lathe_api& api) { api.run_command = run; }

}  // namespace lathe::capi
