// SPDX-License-Identifier: MIT
// Measures kernels for a group of nodes before it is compiled.
#pragma once

#include <memory>

#include "ort_plugin/host.h"
#include "targets/compile.h"

namespace lathe::ort_plugin {

// The choices for `program`, measured for about `seconds` on inputs of zeros within `memory_limit`
// bytes (0: any); sizes without a value are chosen (runtime/sizes.h). Null, with a warning in the
// log, if the program does not run on such inputs.
std::shared_ptr<Tuning> tune_group(const Program& program, const CompileOptions& options,
                                   double seconds, int64_t memory_limit, const Log& log);

}  // namespace lathe::ort_plugin
