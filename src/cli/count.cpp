// SPDX-License-Identifier: MIT
#include "cli/count.h"

#include "base/error.h"
#include "targets/gpu_library.h"

namespace lathe::cli {

void start_counting(const Options& options) {
  check(options.text("target") == "gpu:host", ErrorKind::invalid_argument,
        "--count needs '--target gpu:host', not '{}'", options.text("target"));
  gpu::Settings settings;
  settings.memory_limit = options.integer("device-memory-limit");
  settings.count = true;
  set_gpu_settings(settings);
}

void print_counts(Output& out) { out.write("\n" + gpu_counts()); }

}  // namespace lathe::cli
