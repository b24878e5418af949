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
    const auto get = [&](int part) {
      return device.code().get(
          {"choose_tokens",
           fmt::format("typedef {} T;\n#define PART {}\n{}{}{}{}", type_name(element), part,
                       kernel_text("tokens.gpu"), kernel_text("cutoffs.gpu"),
                       kernel_text("few_tokens.gpu"), kernel_text("choose_tokens.gpu"))});
    };
    const std::optional<int64_t> vocabulary =
        (*instruction.operands()[Operand::logits]->type().dims)[1].constant();
    if (!vocabulary || parts_of(*vocabulary) > 0) prepare_ = get(0);
    choose_ = get(1);
  }
  bool uses_workspace() const override { return true; }
  // Changed logits of every sequence, and what is known of the parts of its row; a shorter row may
  // have parts where the longest has none.
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    const int64_t vocabulary = most.in[Operand::logits]->dims[1];
    return most.in[Operand::integers]->dims[0] *
           (changed_bytes(vocabulary) + std::min(all_parts(vocabulary), kMostParts) * kPartBytes);
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
    const int64_t parts = prepare_ == nullptr ? 0 : parts_of(vocabulary);
    arguments.add(parts);
    arguments.add(static_cast<const std::byte*>(args.workspace) +
                  sequences * changed_bytes(vocabulary));
    constexpr uint64_t kLeast = 16;
    constexpr uint64_t kMost = kMostThreads;
    constexpr uint64_t kTokensOfThread = 32;
    const uint64_t wanted =
        std::clamp(static_cast<uint64_t>(vocabulary) / kTokensOfThread, kLeast, kMost);
    const auto threads = static_cast<uint32_t>(std::bit_floor(wanted));
    if (parts > 0) {
      enqueue(*prepare_, args, arguments,
              {static_cast<uint32_t>(parts), static_cast<uint32_t>(sequences), 1}, kMostThreads);
    }
    enqueue(*choose_, args, arguments, {blocks_for(sequences * threads, threads), 1, 1}, threads);
  }

 private:
  // As kernels/choose_tokens.gpu has them: tokens of a part, and what is kept of it.
  static constexpr uint32_t kMostThreads = 512;
  static constexpr int64_t kPartTokens = int64_t{kMostThreads} * 16;
  static constexpr int64_t kPartBytes = 16 + 128 * 8;
  static constexpr int64_t kMostParts = 32;
  static int64_t all_parts(int64_t vocabulary) {
    return (vocabulary + kPartTokens - 1) / kPartTokens;
  }
  // Short rows are chosen from as they are; so are those whose tokens do not fit the list.
  static int64_t parts_of(int64_t vocabulary) {
    const int64_t parts = all_parts(vocabulary);
    return parts < 2 || parts > kMostParts ? 0 : parts;
  }
  static int64_t changed_bytes(int64_t vocabulary) {
    constexpr int64_t kAlignment = 16;
    return (vocabulary * static_cast<int64_t>(sizeof(float)) + kAlignment - 1) / kAlignment *
           kAlignment;
  }
  bool masked_;
  std::shared_ptr<const Code> prepare_;
  std::shared_ptr<const Code> choose_;
};

KernelChoice make_choose_tokens(const GpuDevice& device, const Instruction& instruction,
                                Constants) {
  return {std::make_unique<ChooseTokens>(device, instruction), ""};
}

}  // namespace

extern const KernelEntry kChooseTokens;
const KernelEntry kChooseTokens{ops::choose_tokens, why_no_types, make_choose_tokens};

}  // namespace lathe::gpu
