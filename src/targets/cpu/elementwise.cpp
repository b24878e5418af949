// SPDX-License-Identifier: MIT
// f32 elementwise ops on dense operands, vectorised, with the bits of the reference. Other strides
// run on the reference.
#include <algorithm>

#include "base/thread_pool.h"
#include "ir/ops.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements

struct Formula1 {
  const Op* op;
  Activation activation;
};
constexpr std::array kUnary{
    Formula1{&ops::gelu, Activation::gelu},       Formula1{&ops::relu, Activation::relu},
    Formula1{&ops::sigmoid, Activation::sigmoid}, Formula1{&ops::swish, Activation::silu},
    Formula1{&ops::tanh, Activation::tanh},
};

const Formula1* unary_of(const Instruction& instruction) {
  const auto at = std::ranges::find(kUnary, &instruction.op(), &Formula1::op);
  return at == kUnary.end() ? nullptr : &*at;
}

float alpha_of(const Instruction& instruction) {
  const Attribute* found = find_attribute(instruction.attributes(), "alpha");
  return found == nullptr ? 0 : static_cast<float>(std::get<double>(*found));
}

class Unary final : public Kernel {
 public:
  Unary(const Instruction& instruction, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        activation_(unary_of(instruction)->activation),
        alpha_(alpha_of(instruction)),
        reference_(make_reference_kernel(instruction).kernel) {
    if (activation_ == Activation::gelu &&
        attribute<std::string>(instruction, "approximate") != "none") {
      activation_ = Activation::gelu_tanh;
    }
  }
  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }
  bool may_overwrite(int /*operand*/) const override { return true; }

  void launch(const LaunchArgs& args) const override {
    const TensorView &in = *args.in[0], &out = *args.out[0];
    if (!in.is_dense() || !out.is_dense()) return reference_->launch(args);
    const auto* x = in.as<float>();
    auto* y = out.as<float>();
    parallel_for(args.pool, out.count(), kGrain, [&](int64_t begin, int64_t end) {
      vector_ops(isa_).activate(activation_, alpha_, 0, x + begin, y + begin, end - begin);
    });
  }

 private:
  std::string name_;
  Isa isa_;
  Activation activation_;
  float alpha_;
  std::unique_ptr<const Kernel> reference_;
};

class Binary final : public Kernel {
 public:
  Binary(const Instruction& instruction, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        alpha_(alpha_of(instruction)),
        reference_(make_reference_kernel(instruction).kernel) {
    const RowOps& rows = row_ops(isa);
    const Op& op = instruction.op();
    run_ = op == ops::add   ? rows.add
           : op == ops::sub ? rows.sub
           : op == ops::mul ? rows.mul
                            : nullptr;
  }
  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }
  bool may_overwrite(int /*operand*/) const override { return true; }

  void launch(const LaunchArgs& args) const override {
    const TensorView &a = *args.in[0], &b = *args.in[1], &y = *args.out[0];
    if (!a.is_dense() || !b.is_dense() || !y.is_dense() || y.count() == 0) {
      return reference_->launch(args);
    }
    // One operand may be a row that broadcasts to all rows of the other.
    const int64_t count = y.count();
    const int64_t width = std::min(a.count(), b.count());
    const bool same = a.count() == count && b.count() == count;
    if (!same && !(width > 1 && (has_last_axes(a, y) || a.count() == count) &&
                   (has_last_axes(b, y) || b.count() == count))) {
      return reference_->launch(args);
    }
    const int64_t row = same ? std::min(count, kGrain) : width;
    const int64_t a_step = a.count() == count ? row : 0, b_step = b.count() == count ? row : 0;
    const int64_t rows = (count + row - 1) / row;
    parallel_for(
        args.pool, rows, std::max<int64_t>(1, kGrain / row), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t at = i * row, own = std::min(row, count - at);
            apply(a.as<float>() + i * a_step, b.as<float>() + i * b_step, y.as<float>() + at, own);
          }
        });
  }

 private:
  // True if x has the shape of y's last axes, after leading ones.
  static bool has_last_axes(const TensorView& x, const TensorView& y) {
    const auto dims = x.extents(), all = y.extents();
    size_t skip = 0;
    while (skip < dims.size() && dims[skip] == 1) ++skip;
    const auto own = dims.subspan(skip);
    return own.size() <= all.size() && std::ranges::equal(own, all.last(own.size()));
  }

  void apply(const float* a, const float* b, float* y, int64_t count) const {
    if (run_ != nullptr) {
      run_(a, b, y, count);
    } else {
      row_ops(isa_).swiglu(alpha_, a, b, y, count);
    }
  }

  std::string name_;
  Isa isa_;
  float alpha_;
  void (*run_)(const float*, const float*, float*, int64_t) = nullptr;
  std::unique_ptr<const Kernel> reference_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const ElementType type = element_of(instruction, 0);
  return type == ElementType::f32 ? ""
                                  : fmt::format("operands are {}, supported: f32", to_string(type));
}

KernelChoice make_unary(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<Unary>(instruction, isa), ""};
}

KernelChoice make_binary(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<Binary>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kAdd{ops::add, why_not, make_binary};
const KernelEntry kGelu{ops::gelu, why_not, make_unary};
const KernelEntry kMul{ops::mul, why_not, make_binary};
const KernelEntry kRelu{ops::relu, why_not, make_unary};
const KernelEntry kSigmoid{ops::sigmoid, why_not, make_unary};
const KernelEntry kSub{ops::sub, why_not, make_binary};
const KernelEntry kSwiglu{ops::swiglu, why_not, make_binary};
const KernelEntry kSwish{ops::swish, why_not, make_unary};
const KernelEntry kTanh{ops::tanh, why_not, make_unary};

}  // namespace lathe::cpu
