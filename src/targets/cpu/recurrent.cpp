// SPDX-License-Identifier: MIT
// lstm, gru and rnn.
#include "targets/cpu/kernels/recurrent/recurrent.h"

#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

enum Operand : int { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

RecurrentCell cell_of(const Instruction& instruction) {
  const std::string_view op = instruction.op().name;
  return op == "lstm" ? RecurrentCell::lstm : op == "gru" ? RecurrentCell::gru : RecurrentCell::rnn;
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

// A dense operand, or null if it is absent.
class Dense {
 public:
  Dense(const Evaluation& c, int operand) {
    if (!c.has(operand)) return;
    view_ = dense_view(c.in(operand), copy_, made_);
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(view_.data);
  }

 private:
  TensorView view_;
  Tensor copy_;
  TensorView made_;
};

// A dense result, or memory that is copied to it at the end.
class Result {
 public:
  Result(const Evaluation& c, int index) {
    if (index >= c.results()) return;
    target_ = data_ = c.out(index);
    if (target_.is_dense()) return;
    copy_ = Tensor(target_.type, Dims(target_.extents().begin(), target_.extents().end()));
    data_ = copy_.view();
  }
  float* data() const { return data_.as<float>(); }
  void finish() const {
    if (copy_.data() != nullptr) copy_elements(data_, target_);
  }

 private:
  TensorView target_;
  TensorView data_;
  Tensor copy_;
};

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const Instruction& instruction, Constants constants, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        problem_(problem_of(instruction)),
        batch_first_(attribute<int64_t>(instruction, "layout") == 1) {
    std::array<const Tensor*, 4> weights{};
    constexpr std::array kWeights{kW, kR, kB, kPeepholes};
    for (size_t i = 0; i < kWeights.size(); ++i) {
      const auto operand = static_cast<size_t>(kWeights[i]);
      weights[i] = constant_at(constants, operand);
      if (has_operand(instruction, operand) && weights[i] == nullptr) return;
    }
    const auto data = [&](size_t i) {
      return weights[i] == nullptr ? nullptr : weights[i]->as<float>();
    };
    packed_ = std::make_unique<Recurrent>(
        problem_, RecurrentWeights{data(0), data(1), data(2), data(3)}, isa_);
  }

  std::string_view name() const override { return name_; }
  bool reads(int operand) const override {
    const bool weight = operand == kW || operand == kR || operand == kB || operand == kPeepholes;
    return !(weight && packed_ != nullptr);
  }
  std::string detail() const override {
    return fmt::format("{}, {}", to_string(isa_),
                       packed_ != nullptr ? "weights packed" : "packs weights at run time");
  }

  void launch(Evaluation& c) const override {
    if (packed_ != nullptr) return run(c, *packed_);
    const Dense w(c, kW), r(c, kR), b(c, kB), p(c, kPeepholes);
    run(c, Recurrent(problem_, {w.data<float>(), r.data<float>(), b.data<float>(), p.data<float>()},
                     isa_));
  }

 private:
  void run(Evaluation& c, const Recurrent& layer) const {
    const TensorView& given = c.in(kX);
    const Dense x(c, kX), lengths(c, kLengths), h(c, kInitialH), cell(c, kInitialC);
    const Result y(c, 0), last_h(c, 1), last_c(c, 2);
    const auto directions = static_cast<int64_t>(problem_.backward.size());
    const int64_t hidden = problem_.hidden;
    RecurrentArguments a;
    a.time = given.dims[batch_first_ ? 1 : 0];
    a.batch = given.dims[batch_first_ ? 0 : 1];
    a.x = x.data<float>();
    a.y = y.data();
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
    a.lengths = lengths.data<int32_t>();
    a.initial_h = h.data<float>();
    a.initial_c = cell.data<float>();
    a.last_h = last_h.data();
    a.last_c = last_c.data();
    layer.run(a, c.pool);
    for (const Result* result : {&y, &last_h, &last_c}) result->finish();
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

const KernelEntry kGru{"gru", why_not, make};
const KernelEntry kLstm{"lstm", why_not, make};
const KernelEntry kRnn{"rnn", why_not, make};

}  // namespace lathe::cpu
