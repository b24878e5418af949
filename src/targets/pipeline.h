// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"
#include "passes/place.h"
#include "passes/set_compute_type.h"
#include "targets/target.h"
#include "targets/tuning.h"

namespace lathe {

// Passes from an imported program to one that can be planned, by stage. Start reading here.
// The last of them: places instructions on this target, else on `cpu`, else on `ref`.
Pass place_for(const std::shared_ptr<const Target>& target, Boundary boundary = Boundary::host);
// `tuning` chooses where regions of the CPU are cut; null: nowhere.
Pipeline make_pipeline(const std::shared_ptr<const Target>& target,
                       Compute compute = Compute::as_model, Boundary boundary = Boundary::host,
                       const std::shared_ptr<Tuning>& tuning = nullptr);

}  // namespace lathe
