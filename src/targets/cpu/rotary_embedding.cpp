// SPDX-License-Identifier: MIT
// RoPE of heads of any strides: the evaluation, by vectorised rows of f32.
#include "ir/ops.h"
#include "ops/op_call.h"
#include "ops/support/rope.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

class RotaryKernel final : public Kernel {
 public:
  RotaryKernel(const Instruction& instruction, Isa isa)
      : origin_(instruction),
        isa_(isa),
        heads_(attribute<int64_t>(instruction, "num_heads")),
        interleaved_(attribute<bool>(instruction, "interleaved")) {}
  std::string_view name() const override { return "cpu.rotary_embedding"; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  void launch(const LaunchArgs& args) const override {
    LaunchViews c(args);
    const RowOps& rows = row_ops(isa_);
    rotate_heads(OpCall(origin_, c), heads_, interleaved_,
                 interleaved_ ? rows.rotate_pairs : rows.rotate);
  }

 private:
  OpOrigin origin_;
  Isa isa_;
  int64_t heads_;
  bool interleaved_;
};

std::string why_not(const Instruction& /*instruction*/, Isa /*isa*/) { return ""; }

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<RotaryKernel>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kRotaryEmbedding{ops::rotary_embedding, why_not, make};

}  // namespace lathe::cpu
