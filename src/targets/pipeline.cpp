// SPDX-License-Identifier: MIT
#include "targets/pipeline.h"

#include "passes/eliminate_dead_code.h"
#include "passes/fold_constants.h"
#include "passes/lower_composites.h"
#include "passes/simplify_algebra.h"

namespace lathe {

Pipeline make_pipeline(const std::shared_ptr<const Target>& target, Compute compute) {
  const auto expands = [target](const Instruction& i) { return target->expands(i); };
  std::vector<Pass> optimised = {simplify_algebra};
  if (compute != Compute::as_model) optimised.push_back(set_compute_type(compute));
  return {
      .stages =
          {
              {Stage::canonical, {fold_constants}},
              {Stage::optimised, std::move(optimised)},
              {Stage::fused, {}},
              {Stage::lowered, {lower_composites(expands), fold_constants}},
          },
      .cleanup = eliminate_dead_code,
  };
}

}  // namespace lathe
