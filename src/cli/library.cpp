// SPDX-License-Identifier: MIT
// The command line inside of liblathe: run_command of the C interface.
#include "base/log.h"
#include "base/os_signal.h"
#include "capi/commands.h"
#include "cli/command_runner.h"
#include "cli/execution.h"

namespace lathe::cli {
namespace {

int run_in_library(std::vector<std::string> arguments) {
  const SavedSignals signals;
  const int level = log_level();
  interrupts().reset();
  watch_interrupts([] { interrupts().cancel(); });
  const int code = run_arguments(std::move(arguments));
  reset_interrupt();
  end_at_interrupt(false);
  set_log_level(level);
  return code;
}

[[maybe_unused]] const bool registered = capi::set_command_runner(run_in_library);

}  // namespace
}  // namespace lathe::cli
