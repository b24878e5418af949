// SPDX-License-Identifier: MIT
// causal_conv_with_state and sequence_conv.
#include "targets/cpu/kernels/recurrent/causal_conv.h"

#include <memory>

#include "ir/ops.h"
#include "ops/support/causal_conv.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kX, kW, kBias, kPast };

class CausalConvKernel final : public Kernel {
 public:
  CausalConvKernel(const Instruction& instruction, const CausalConvProblem& problem, const float* w,
                   const float* bias, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        origin_(instruction),
        attributes_(InstructionReader(instruction)),
        sequences_(instruction.op() == ops::sequence_conv),
        isa_(isa),
        conv_(problem, w, bias, isa) {}

  std::string_view name() const override { return name_; }
  std::string detail() const override {
    return fmt::format("{}, {} taps", to_string(isa_), conv_.problem().taps);
  }

  bool uses_workspace() const override { return !sequences_; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    if (sequences_) return 0;
    ScratchLayout workspace;
    workspace.take<CausalConvRows>(most.in[kX]->dims[0]);
    if (most.has(kPast)) reserve_copy(most.in[kPast], workspace);
    reserve_copy(most.out[1], workspace);
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    if (sequences_) return launch_sequences(args);
    ScratchLayout workspace = workspace_of(args);
    CausalConv item = prepare_causal_conv(attributes_, LaunchViews(args));
    const int64_t batch = item.x.dims[0];
    auto* rows = workspace.take<CausalConvRows>(batch);
    if (item.past) item.past = dense_operand(*item.past, workspace);
    const DenseResult present(item.present, workspace);
    item.present = present.view();
    for (int64_t b = 0; b < batch; ++b) std::construct_at(rows + b, rows_of(item, b));
    if (batch > 0) conv_.run({rows, static_cast<size_t>(batch)}, args.pool);
    present.finish();
  }

 private:
  void launch_sequences(const LaunchArgs& args) const {
    // Reused across launches.
    thread_local std::vector<CausalConv> items;
    thread_local std::vector<CausalConvRows> rows;
    rows.clear();
    prepare_sequence_conv(attributes_, origin_, LaunchViews(args), items);
    std::vector<States> copies;
    for (CausalConv& item : items) {
      make_dense(item, copies);
      for (int64_t b = 0; b < item.x.dims[0]; ++b) rows.push_back(rows_of(item, b));
    }
    if (!rows.empty()) conv_.run(rows, args.pool);
    for (const States& copy : copies) copy_elements(copy.present.view(), copy.result);
  }

  // Copies of states that are not dense.
  struct States {
    Tensor past;
    Tensor present;
    TensorView result;
  };
  static void make_dense(CausalConv& item, std::vector<States>& copies) {
    const bool past = !item.past || item.past->is_dense();
    if (past && item.present.is_dense()) return;
    const auto extents = item.present.extents();
    States copy{{}, Tensor(item.present.type, Dims(extents.begin(), extents.end())), item.present};
    if (!past) {
      copy.past = Tensor(item.past->type, Dims(extents.begin(), extents.end()));
      copy_elements(*item.past, copy.past.view());
      item.past = copy.past.view();
    }
    item.present = copy.present.view();
    copies.push_back(std::move(copy));
  }

  CausalConvRows rows_of(const CausalConv& item, int64_t b) const {
    const int64_t state = conv_.problem().channels * conv_.problem().state();
    CausalConvRows x;
    x.rows = item.x.dims[2];
    x.x = item.x.as<float>() + b * item.x.strides[0];
    x.x_channel = item.x.strides[1];
    x.x_row = item.x.strides[2];
    x.y = item.y.as<float>() + b * item.y.strides[0];
    x.y_channel = item.y.strides[1];
    x.y_row = item.y.strides[2];
    if (item.past) x.past = item.past->as<float>() + b * state;
    x.present = item.present.as<float>() + b * state;
    return x;
  }

  std::string name_;
  OpOrigin origin_;
  CausalConvAttributes attributes_;
  bool sequences_;
  Isa isa_;
  CausalConvolution conv_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  if (element_of(instruction, kX) != ElementType::f32) {
    return fmt::format("operands are {}, supported: f32", to_string(element_of(instruction, kX)));
  }
  // The state's type can differ from x's if it is the result of another op.
  for (const Value& result : instruction.results()) {
    if (result.type().element != ElementType::f32) return "the state is not f32";
  }
  if (attribute<int64_t>(instruction, "state_window") > 0) {
    return fmt::format("state_window is {}, supported: 0",
                       attribute<int64_t>(instruction, "state_window"));
  }
  return attribute<bool>(instruction, "channels_last") ? "channels_last is not supported" : "";
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  const Tensor* w = constant_at(constants, kW);
  const Tensor* bias = constant_at(constants, kBias);
  if (w == nullptr || (bias == nullptr && has_operand(instruction, kBias))) {
    return {nullptr, "the weights are not constant"};
  }
  CausalConvProblem problem;
  problem.channels = w->dims()[0];
  problem.taps = w->dims()[2];
  problem.dilation = attribute<int64_t>(instruction, "dilation");
  problem.silu = attribute<std::string>(instruction, "activation") != "none";
  const std::vector<float> weights = floats_of(*w);
  const std::vector<float> added = bias == nullptr ? std::vector<float>() : floats_of(*bias);
  return {std::make_unique<CausalConvKernel>(instruction, problem, weights.data(),
                                             bias == nullptr ? nullptr : added.data(), isa),
          ""};
}

}  // namespace

const KernelEntry kCausalConvWithState{ops::causal_conv_with_state, why_not, make};
const KernelEntry kSequenceConv{ops::sequence_conv, why_not, make};

}  // namespace lathe::cpu
