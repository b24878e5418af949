// SPDX-License-Identifier: MIT
// Tokens chosen from logits on the device.
#include "ops/support/choose_tokens.h"

#include <algorithm>
#include <bit>

#include "ir/ops.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

using Operand = ChoiceOperands::Operand;
using Result = ChoiceOperands::Result;

class ChooseTokens final : public GpuKernel {
 public:
  ChooseTokens(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, "choose_tokens"),
        masked_(InstructionReader(instruction).has(Operand::masks)) {
    const ElementType element = instruction.operands()[Operand::logits]->type().element;
    code_ = device.code().get({"choose_tokens", fmt::format("typedef {} T;\n{}", type_name(element),
                                                            kernel_text("choose_tokens.gpu"))});
  }
  bool uses_workspace() const override { return true; }
  // Changed logits of every sequence.
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    return most.in[Operand::integers]->dims[0] * most.in[Operand::logits]->dims[1] *
           static_cast<int64_t>(sizeof(float));
  }

  void launch(const LaunchArgs& args) const override {
    const TensorView& logits = *args.in[Operand::logits];
    const int64_t vocabulary = logits.dims[1];
    const int64_t sequences = args.in[Operand::integers]->dims[0];
    if (sequences == 0) return;
    Arguments arguments;
    const auto add = [&](const TensorView* view, int axes) {
      arguments.add(view == nullptr ? nullptr : view->data);
      for (int axis = 0; axis < axes; ++axis) {
        arguments.add(view == nullptr ? 0 : view->strides[static_cast<size_t>(axis)]);
      }
    };
    add(&logits, 2);
    arguments.add(logits.dims[0]);
    arguments.add(vocabulary);
    arguments.add(sequences);
    add(args.in[Operand::integers], 2);
    add(args.in[Operand::numbers], 2);
    add(args.in[Operand::edit_bounds], 1);
    add(args.in[Operand::edits], 2);
    add(args.in[Operand::edit_values], 1);
    arguments.add(
        std::min(args.in[Operand::edits]->dims[0], args.in[Operand::edit_values]->dims[0]));
    add(args.in[Operand::ranks], 1);
    arguments.add(args.in[Operand::ranks]->dims[0]);
    const TensorView* masks = masked_ ? args.in[Operand::masks] : nullptr;
    add(masks, 2);
    arguments.add(masks == nullptr ? 0 : masks->dims[0]);
    arguments.add(masks == nullptr ? 0 : masks->dims[1]);
    add(args.out[Result::tokens], 1);
    add(args.out[Result::log_probabilities], 1);
    add(args.out[Result::likely_tokens], 2);
    add(args.out[Result::likely_log_probabilities], 2);
    arguments.add(args.workspace);
    arguments.add(62 - static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(vocabulary))));
    constexpr uint64_t kLeast = 16;
    constexpr uint64_t kMost = 512;
    constexpr uint64_t kTokensOfThread = 32;
    const uint64_t wanted =
        std::clamp(static_cast<uint64_t>(vocabulary) / kTokensOfThread, kLeast, kMost);
    const auto threads = static_cast<uint32_t>(std::bit_floor(wanted));
    enqueue(*code_, args, arguments, {blocks_for(sequences * threads, threads), 1, 1}, threads);
  }

 private:
  bool masked_;
  std::shared_ptr<const Code> code_;
};

KernelChoice make_choose_tokens(const GpuDevice& device, const Instruction& instruction,
                                Constants) {
  return {std::make_unique<ChooseTokens>(device, instruction), ""};
}

}  // namespace

extern const KernelEntry kChooseTokens;
const KernelEntry kChooseTokens{ops::choose_tokens, why_no_types, make_choose_tokens};

}  // namespace lathe::gpu
