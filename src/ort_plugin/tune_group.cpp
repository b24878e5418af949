// SPDX-License-Identifier: MIT
#include "ort_plugin/tune_group.h"

#include "base/error.h"
#include "runtime/tune.h"

namespace lathe::ort_plugin {

std::shared_ptr<Tuning> tune_group(const Program& program, const CompileOptions& options,
                                   double seconds, int64_t memory_limit, const Log& log) {
  try {
    TuneOptions how;
    how.seconds = seconds;
    how.cache = tuning_cache();
    how.memory_limit = memory_limit;
    CompileOptions on_host = options;
    on_host.boundary = lathe::Boundary::host;
    const TuneResult result = tune_on_zeros(program, on_host, how);
    log.info(to_string(result));
    return result.tuning;
  } catch (const Error& error) {
    log.warn(fmt::format("option 'tune' has no effect on a group: {}", error.message()));
    return nullptr;
  }
}

}  // namespace lathe::ort_plugin
