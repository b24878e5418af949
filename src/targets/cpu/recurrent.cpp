// SPDX-License-Identifier: MIT
// lstm, gru and rnn.
#include "targets/cpu/kernels/recurrent/recurrent.h"

#include <algorithm>
#include <optional>

#include "ir/ops.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

constexpr std::array<size_t, 4> kWeights{kW, kR, kB, kPeepholes};

RecurrentCell cell_of(const Instruction& instruction) {
  const Op& op = instruction.op();
  return op == ops::lstm  ? RecurrentCell::lstm
         : op == ops::gru ? RecurrentCell::gru
                          : RecurrentCell::rnn;
}

RecurrentProblem problem_of(const Instruction& instruction) {
  RecurrentProblem p;
  p.cell = cell_of(instruction);
  p.element = element_of(instruction, kX);
  const std::vector<Dim>& w = *instruction.operands()[kW]->type().dims;
  const std::vector<Dim>& r = *instruction.operands()[kR]->type().dims;
  p.input = w[2].constant().value_or(0);
  p.hidden = r[2].constant().value_or(0);
  const auto direction = attribute<std::string>(instruction, "direction");
  p.backward = {direction == "reverse"};
  if (direction == "bidirectional") p.backward = {false, true};
  const auto is_set = [&](std::string_view name) {
    const Attribute* found = find_attribute(instruction.attributes(), name);
    const auto* flag = found == nullptr ? nullptr : std::get_if<bool>(found);
    return flag != nullptr && *flag;
  };
  p.linear_before_reset = is_set("linear_before_reset");
  p.input_forget = is_set("input_forget");
  p.clip = static_cast<float>(attribute<double>(instruction, "clip"));
  p.activations = attribute<Texts>(instruction, "activations");
  return p;
}

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const Instruction& instruction, Constants constants, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        problem_(problem_of(instruction)),
        batch_first_(attribute<int64_t>(instruction, "layout") == 1) {
    std::array<const Tensor*, 4> weights{};
    for (size_t i = 0; i < kWeights.size(); ++i) {
      weights[i] = constant_at(constants, kWeights[i]);
      if (has_operand(instruction, kWeights[i]) && weights[i] == nullptr) return;
    }
    const auto data = [&](size_t i) {
      return weights[i] == nullptr ? nullptr : weights[i]->as<float>();
    };
    packed_ = std::make_unique<Recurrent>(
        problem_, RecurrentWeights{data(0), data(1), data(2), data(3)}, isa_);
  }

  std::string_view name() const override { return name_; }
  bool reads(int operand) const override {
    const bool weight = std::ranges::find(kWeights, static_cast<size_t>(operand)) != kWeights.end();
    return !(weight && packed_ != nullptr);
  }
  std::string detail() const override {
    return fmt::format("{}, {}", to_string(isa_),
                       packed_ != nullptr ? "weights packed" : "packs weights at run time");
  }

  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    for (size_t i = 0; i < most.in.size(); ++i) {
      if (reads(static_cast<int>(i))) reserve_copy(most.in[i], workspace);
    }
    for (const TensorView* result : most.out) reserve_copy(result, workspace);
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    ScratchLayout workspace = workspace_of(args);
    if (packed_ != nullptr) return run(args, *packed_, workspace);
    const auto weights = [&](size_t i) { return data<float>(args, i, workspace); };
    run(args,
        Recurrent(problem_, {weights(kW), weights(kR), weights(kB), weights(kPeepholes)}, isa_),
        workspace);
  }

 private:
  // The elements of an operand, dense; null if it is absent.
  template <class T>
  static const T* data(const LaunchArgs& args, size_t operand, ScratchLayout& workspace) {
    return args.has(operand) ? dense_operand(*args.in[operand], workspace).as<T>() : nullptr;
  }

  void run(const LaunchArgs& args, const Recurrent& layer, ScratchLayout& workspace) const {
    const TensorView& given = *args.in[kX];
    std::array<std::optional<DenseResult>, 3> results;
    std::array<float*, 3> written{};
    for (size_t i = 0; i < results.size() && i < args.out.size(); ++i) {
      written[i] = results[i].emplace(*args.out[i], workspace).view().as<float>();
    }
    const auto directions = static_cast<int64_t>(problem_.backward.size());
    const int64_t hidden = problem_.hidden;
    RecurrentArguments a;
    a.time = given.dims[batch_first_ ? 1 : 0];
    a.batch = given.dims[batch_first_ ? 0 : 1];
    a.x = data<float>(args, kX, workspace);
    a.y = written[0];
    if (batch_first_) {
      a.x_time = problem_.input;
      a.x_batch = a.time * problem_.input;
      a.y_direction = hidden;
      a.y_time = directions * hidden;
      a.y_batch = a.time * directions * hidden;
      a.state_direction = hidden;
      a.state_batch = directions * hidden;
    } else {
      a.x_batch = problem_.input;
      a.x_time = a.batch * problem_.input;
      a.y_batch = hidden;
      a.y_direction = a.batch * hidden;
      a.y_time = directions * a.batch * hidden;
      a.state_batch = hidden;
      a.state_direction = a.batch * hidden;
    }
    a.lengths = data<int32_t>(args, kLengths, workspace);
    a.initial_h = data<float>(args, kInitialH, workspace);
    a.initial_c = data<float>(args, kInitialC, workspace);
    a.last_h = written[1];
    a.last_c = written[2];
    layer.run(a, args.pool);
    for (const std::optional<DenseResult>& result : results) {
      if (result) result->finish();
    }
  }

  std::string name_;
  Isa isa_;
  RecurrentProblem problem_;
  bool batch_first_;
  std::unique_ptr<const Recurrent> packed_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  for (const std::string_view list : {"activation_alpha", "activation_beta"}) {
    if (!attribute<Numbers>(instruction, list).empty()) {
      return fmt::format("{} is set", list);
    }
  }
  return Recurrent::refuse(problem_of(instruction));
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  return {std::make_unique<RecurrentKernel>(instruction, constants, isa), ""};
}

}  // namespace

const KernelEntry kGru{ops::gru, why_not, make};
const KernelEntry kLstm{ops::lstm, why_not, make};
const KernelEntry kRnn{ops::rnn, why_not, make};

}  // namespace lathe::cpu
