// SPDX-License-Identifier: MIT
#include "passes/decoder/fold_conv_transposes.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/kv_cache_uses.h"

namespace lathe {
namespace {

// True for a transpose that swaps tokens and channels.
bool swaps_channels(const Instruction* instruction) {
  return instruction != nullptr && instruction->op() == ops::transpose &&
         std::get<Integers>(*find_attribute(instruction->attributes(), "permutation")) ==
             Integers{0, 2, 1};
}

bool lies_between_turns(const Instruction& conv) {
  const Attributes& attributes = conv.attributes();
  const bool plain = !std::get<bool>(*find_attribute(attributes, "channels_last")) &&
                     !std::get<bool>(*find_attribute(attributes, "rows_first"));
  return plain && swaps_channels(operand(conv, 0)->definition()) &&
         !conv.result()->uses().empty() &&
         std::ranges::all_of(conv.result()->uses(),
                             [](const Use& u) { return swaps_channels(u.user); });
}

}  // namespace

bool fold_conv_transposes(Module& main) {
  std::vector<Instruction*> found;
  for (const auto& instruction : main.instructions()) {
    if (instruction->op() == ops::sequence_conv && lies_between_turns(*instruction)) {
      found.push_back(instruction.get());
    }
  }
  for (Instruction* conv : found) {
    Builder builder(main, conv);
    builder.set_origins(conv->origins());
    std::vector<Value*> operands = conv->operands();
    operands[0] = operands[0]->definition()->operands()[0];
    Attributes attributes = conv->attributes();
    for (auto& [name, value] : attributes) {
      if (name == "rows_first") value = true;
    }
    Instruction* made = builder.add(ops::sequence_conv, operands, attributes);
    main.replace_uses(conv->result(1), made->result(1));
    Value* y = made->result();
    while (!conv->result()->uses().empty()) {
      Instruction* turn = conv->result()->uses().front().user;
      main.replace_uses(turn->result(), y);
      main.erase(turn);
    }
    main.erase(conv);
  }
  return !found.empty();
}

}  // namespace lathe
