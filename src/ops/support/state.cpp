// SPDX-License-Identifier: MIT
#include "ops/support/state.h"

#include "base/error.h"
#include "ir/op.h"

namespace lathe {

const State& state_of(const Instruction& instruction) {
  const auto& name = std::get<std::string>(*find_attribute(instruction.attributes(), "state"));
  const State* state = instruction.module()->program().find_state(name);
  check(state != nullptr, ErrorKind::invalid_model, "{}: the program has no state '{}'",
        instruction.op().name, escape(name));
  return *state;
}

}  // namespace lathe
