// SPDX-License-Identifier: MIT
// matmul and gemm.
#include "ir/ops.h"
#include "targets/cpu/anchor.h"
#include "targets/cpu/gemm.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/panel_source.h"
#include "targets/cpu/tuned_gemms.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kA, kB, kC };

bool is_gemm(const Instruction& instruction) { return instruction.op() == ops::gemm; }

// The matrix with swapped axes.
TensorView transposed(TensorView view) {
  std::swap(view.dims[0], view.dims[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

class Matmul final : public AnchorKernel {
 public:
  Matmul(const Instruction& instruction, const std::optional<PanelSource>& source,
         Constants constants, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        type_(*gemm_type_of(instruction)),
        is_gemm_(is_gemm(instruction)) {
    if (is_gemm_) {
      alpha_ = static_cast<float>(attribute<double>(instruction, "alpha"));
      beta_ = static_cast<float>(attribute<double>(instruction, "beta"));
      transpose_a_ = attribute<bool>(instruction, "trans_a");
      transpose_b_ = attribute<bool>(instruction, "trans_b");
    }
    const Tensor* b = constant_at(constants, kB);
    if (b == nullptr) {
      if (source) packed_.emplace(*source, isa);
    } else if ((b->rank() == 1 || b->rank() == 2) && b->count() > 0) {
      packed_.emplace(*b, transpose_b_, type_, isa);
    }
  }

  std::string_view name() const override { return name_; }
  bool reads(int operand) const override { return operand != kB || !packed_; }
  std::string detail() const override {
    return fmt::format(
        "{}{}, {}", to_string(isa_), type_ == GemmType::bf16 ? ", bf16" : "",
        packed_ ? megabytes(packed_->bytes()) + held_text() + " packed" : "packs b at run time");
  }

  void reserve(const LaunchArgs& most, const AnchorEpilogue& epilogue,
               ScratchLayout& workspace) const override {
    reserve_copy(most.out[0], workspace);
    epilogue.reserve(dense_strides_of(*most.out[0]), workspace);
  }

  void run(const LaunchArgs& args, const AnchorEpilogue& epilogue) const override {
    ScratchLayout workspace = workspace_of(args);
    const TensorView a = transpose_a_ ? transposed(*args.in[kA]) : *args.in[kA];
    const TensorView b = transpose_b_ ? transposed(*args.in[kB]) : *args.in[kB];
    const DenseResult y(*args.out[0], workspace);
    const MatmulShape shape(a, b, y.view());
    EpilogueChain::Steps steps;
    MatmulCall call;
    call.isa = isa_;
    call.type = type_;
    call.epilogue.out = y.view().type;
    add_gemm_steps(args, shape.n, steps);
    epilogue.append(y.view(), {.row = shape.n}, workspace, steps);
    call.epilogue.steps = std::span(steps.steps).first(steps.count);
    call.epilogue.code = steps.code;
    gemms_.run(shape, call, packed_ ? &*packed_ : nullptr, args.pool);
    y.finish();
  }

 private:
  std::string held_text() const {
    if (packed_->stored_type() == ElementType::f32) return "";
    return fmt::format(" of {}", to_string(packed_->stored_type()));
  }
  // alpha · sum + beta · c
  void add_gemm_steps(const LaunchArgs& args, int64_t n, EpilogueChain::Steps& steps) const {
    if (alpha_ != 1) {
      EpilogueStep step;
      step.kind = EpilogueStep::Kind::mul;
      step.operand.scale = alpha_;
      steps.add(step);
    }
    if (!is_gemm_ || !args.has(kC)) return;
    const TensorView& given = *args.in[kC];
    EpilogueStep step;
    step.kind = EpilogueStep::Kind::add;
    step.operand.data = given.data;
    step.operand.type = given.type;
    step.operand.scale = beta_;
    const auto stride = [&](int from_back) {
      const int axis = given.rank - from_back;
      const auto at = static_cast<size_t>(std::max(axis, 0));
      return axis < 0 || given.dims[at] == 1 ? 0 : given.strides[at];
    };
    step.operand.column_stride = n == 1 ? 0 : stride(1);
    step.operand.row_stride = stride(2);
    steps.add(step);
  }

  std::string name_;
  Isa isa_;
  GemmType type_;
  bool is_gemm_;
  bool transpose_a_ = false;
  bool transpose_b_ = false;
  float alpha_ = 1;
  float beta_ = 1;
  std::optional<PackedMatrix> packed_;
  TunedGemms gemms_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  return why_no_gemm(element_of(instruction, kA), element_of(instruction, kB));
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  return {std::make_unique<Matmul>(instruction, panel_source(instruction), constants, isa), ""};
}

}  // namespace

std::unique_ptr<const AnchorKernel> make_matmul_anchor(const Instruction& instruction,
                                                       const std::optional<PanelSource>& source,
                                                       Constants constants, Isa isa) {
  return std::make_unique<Matmul>(instruction, source, constants, isa);
}

const KernelEntry kGemm{ops::gemm, why_not, make};
const KernelEntry kMatmul{ops::matmul, why_not, make};

}  // namespace lathe::cpu
