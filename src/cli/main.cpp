// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/os_signal.h"
#include "cli/command_runner.h"
#include "cli/execution.h"
#include "targets/gpu_library.h"

int main(int argc, char** argv) {
  lathe::watch_interrupts([] { lathe::cli::interrupts().cancel(); });
  const int code =
      lathe::cli::run_arguments(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  lathe::stop_gpu_compilation();
  return code;
}
