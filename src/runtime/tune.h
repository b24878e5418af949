// SPDX-License-Identifier: MIT
// Measures the candidates of a program's problems in runs of that program, on its real shapes.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {

struct TuneOptions {
  double seconds = 10;  // about; at least one run per candidate
  std::string cache;    // folder of known choices; empty: none
  RunOptions run{};
  int64_t memory_limit = 0;  // bytes of scratch and outputs of a run; 0: none
};

struct TuneResult {
  std::shared_ptr<Tuning> tuning;  // for CompileOptions::tuning
  TuningReport report;
  // Median time of a run with the cost model's choices over that with the measured ones, in turn.
  // 1 if all choices are the cost model's.
  double gain = 1;
  // The measured choices together were slower, so all of them were dropped.
  bool dropped = false;
};

// `options.pool` runs the kernels. The program stays unchanged.
TuneResult tune(const Program& program, const CompileOptions& options, std::span<const Box> inputs,
                const TuneOptions& how);

// Tunes on inputs of zeros; sizes that the model leaves open are chosen (sizes.h). Runs end
// after twice the time and some seconds: a loop may end on the values of real inputs alone.
TuneResult tune_on_zeros(const Program& program, const CompileOptions& options, TuneOptions how);

// "42 problems, 30 measured: …", one line without its end.
std::string to_string(const TuneResult& result);

// $XDG_CACHE_HOME/lathe/tuned or ~/.cache/lathe/tuned; empty if neither variable is set.
std::string tuning_cache();

}  // namespace lathe
