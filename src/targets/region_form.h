// SPDX-License-Identifier: MIT
// What targets that compute regions check of their bodies, whatever their kernels are.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "ir/program.h"

namespace lathe {

// The reason why the elementwise `instruction` does not keep its value in a register of its compute
// type: memory would wrap or saturate it. Empty if it does.
std::string why_not_in_register(const Instruction& instruction);

struct RegionLimits {
  size_t operands = 0;
  size_t instructions = 0;
};

// The reason why the body of `region` is not a list of elementwise instructions of one shape, each
// accepted by `why_not` (empty: accepted), whose last one is the result. Empty if it is.
std::string why_no_elementwise_body(const Instruction& region, const RegionLimits& limits,
                                    std::string (*why_not)(const Instruction&));

// The reason why the instructions of `body` beside `anchor` are not a chain, each the only reader
// of the one before it. `why_no_step` judges an instruction that reads the chain as that operand;
// `is_side` is true of instructions that only compute other operands of one.
std::string why_not_chain(const Module& body, const Instruction& anchor,
                          const std::function<std::string(const Instruction&, int)>& why_no_step,
                          const std::function<bool(const Instruction&)>& is_side = {});

}  // namespace lathe
