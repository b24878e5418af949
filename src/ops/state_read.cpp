// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/support/state.h"

namespace lathe {

static const Register state_read{{
    .name = "state_read",
    .doc = "Version 0 of a state in this run: the value that the last run committed.",
    .attributes = {{"state", AttributeKind::text}},
    .structural = Structural::state_read,
    .infer = [](Infer& c) { c.result(state_of(c.instruction()).type); },
}};

}  // namespace lathe
