// SPDX-License-Identifier: MIT
// matmul_integer and qlinear_matmul: exact GEMM of 8-bit integers with zero points.
#include <algorithm>

#include "ir/ops.h"
#include "targets/cpu/gemm.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/tuned_gemms.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

// Operand indices of an op; -1: none.
struct Places {
  int a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias;
};
constexpr Places kInteger{0, -1, 2, 1, -1, 3, -1, -1, -1};
constexpr Places kQlinear{0, 1, 2, 3, 4, 5, 6, 7, 8};

const Places& places_of(const Instruction& instruction) {
  return instruction.op() == ops::matmul_integer ? kInteger : kQlinear;
}

// Offset that packing subtracts from the elements of b.
int32_t packed_shift(ElementType b) { return b == ElementType::u8 ? 128 : 0; }

// Empty: all are 0.
using ZeroPoints = std::span<const int32_t>;

class MatmulInteger final : public Kernel {
 public:
  MatmulInteger(const Instruction& instruction, Constants constants, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        origin_(instruction),
        isa_(isa),
        at_(places_of(instruction)) {
    const auto b_at = static_cast<size_t>(at_.b);
    type_ = *gemm_type_of(element_of(instruction, 0), element_of(instruction, b_at));
    const Tensor* b = constant_at(constants, b_at);
    if (b != nullptr && (b->rank() == 1 || b->rank() == 2) && b->count() > 0) {
      packed_.emplace(*b, false, type_, isa);
    }
  }

  std::string_view name() const override { return name_; }
  bool reads(int operand) const override { return operand != at_.b || !packed_; }
  std::string detail() const override {
    return fmt::format("{}, {}", to_string(isa_),
                       packed_ ? megabytes(packed_->bytes()) + " packed" : "packs b at run time");
  }

  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    reserve_copy(most.out[0], workspace);
    const MatmulShape shape(operand(most, at_.a), operand(most, at_.b), *most.out[0]);
    workspace.take<int32_t>(std::max<int64_t>(1, shape.batch) * shape.m);
    workspace.take<int32_t>(shape.n);
    int64_t factors = std::max(std::max<int64_t>(1, shape.batch) * shape.m, shape.n);
    for (const int i : {at_.a_zero, at_.b_zero, at_.a_scale, at_.b_scale}) {
      if (!has(most, i)) {
        workspace.take<int32_t>(1);
        continue;
      }
      reserve_floats(operand(most, i), workspace);
      factors = std::max(factors, operand(most, i).count());
    }
    if (has(most, at_.bias)) reserve_floats(operand(most, at_.bias), workspace);
    if (at_.y_scale >= 0) workspace.take<float>(factors);
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    ScratchLayout workspace = workspace_of(args);
    const DenseResult y(*args.out[0], workspace);
    const MatmulShape shape(operand(args, at_.a), operand(args, at_.b), y.view());
    const ZeroPoints a_zeros = zeros(args, at_.a_zero, shape.m, shape.batch, 0, "a", workspace);
    const ZeroPoints b_zeros = zeros(args, at_.b_zero, shape.n, shape.batch,
                                     packed_shift(operand(args, at_.b).type), "b", workspace);
    // Zero points per batch require one GEMM per batch element.
    const bool per_batch = std::ssize(a_zeros) > std::max<int64_t>(1, shape.m) ||
                           std::ssize(b_zeros) > std::max<int64_t>(1, shape.n);
    if (per_batch) {
      run_per_batch(shape, a_zeros, b_zeros, workspace, args.pool);
    } else {
      run_at_once(args, shape, a_zeros, b_zeros, y.view().type, workspace);
    }
    y.finish();
  }

 private:
  static bool has(const LaunchArgs& args, int operand) {
    return operand >= 0 && args.has(static_cast<size_t>(operand));
  }
  static const TensorView& operand(const LaunchArgs& args, int operand) {
    return *args.in[static_cast<size_t>(operand)];
  }

  void run_at_once(const LaunchArgs& args, const MatmulShape& shape, ZeroPoints a_zeros,
                   ZeroPoints b_zeros, ElementType out, ScratchLayout& workspace) const {
    // Batch rows count on as rows of one GEMM.
    int32_t* rows = a_zeros.size() > 1 ? workspace.take<int32_t>(shape.batch * shape.m) : nullptr;
    for (int64_t i = 0; rows != nullptr && i < shape.batch; ++i) {
      std::ranges::copy(a_zeros, rows + i * shape.m);
    }
    MatmulCall call =
        call_for(a_zeros.size() == 1 ? a_zeros[0] : 0, rows, filled(b_zeros, shape.n, workspace));
    call.epilogue.out = out;
    if (has(args, at_.bias)) {
      call.epilogue.column_compensation = int32_elements(operand(args, at_.bias), workspace).data();
    }
    EpilogueStep step;
    if (at_.y_scale >= 0) {
      step = requantisation(args, shape, workspace);
      call.epilogue.steps = {&step, 1};
      const TensorView& zero = operand(args, at_.y_zero);
      call.epilogue.out_zero.scale = static_cast<float>(load_int(zero.type, zero.data, 0));
    }
    gemms_.run(shape, call, packed_ ? &*packed_ : nullptr, args.pool);
  }

  // qlinear_matmul: (sum + bias) · (scale of a · scale of b / scale of y)
  EpilogueStep requantisation(const LaunchArgs& args, const MatmulShape& shape,
                              ScratchLayout& workspace) const {
    const std::span<const float> a = float_elements(operand(args, at_.a_scale), workspace);
    const std::span<const float> b = float_elements(operand(args, at_.b_scale), workspace);
    float y = 0;
    const TensorView& y_scale = operand(args, at_.y_scale);
    convert(ElementType::f32, &y, y_scale.type, y_scale.data, 1);
    const auto fits = [](size_t size, int64_t extent) {
      return size == 1 || static_cast<int64_t>(size) == extent;
    };
    origin_.check(fits(a.size(), shape.m) && fits(b.size(), shape.n),
                  "{} and {} scales for {} rows and {} columns", a.size(), b.size(), shape.m,
                  shape.n);
    const bool by_row = a.size() > 1;
    // Batch rows count on as rows of one GEMM. One factor per column even if all are equal:
    // microkernels apply it in registers.
    const int64_t count = by_row ? shape.m * shape.batch : shape.n;
    auto* factors = workspace.take<float>(count);
    for (int64_t i = 0; i < count; ++i) {
      factors[i] = a[by_row ? static_cast<size_t>(i % shape.m) : 0] *
                   b[by_row || b.size() == 1 ? 0 : static_cast<size_t>(i)] / y;
    }
    EpilogueStep step;
    step.kind = EpilogueStep::Kind::mul;
    step.operand.data = factors;
    step.operand.row_stride = by_row ? 1 : 0;
    step.operand.column_stride = by_row ? 0 : 1;
    return step;
  }

  // Zero points minus `shift`: one, `extent`, or `extent` per batch element. Empty if all are 0.
  ZeroPoints zeros(const LaunchArgs& args, int from, int64_t extent, int64_t batch, int32_t shift,
                   std::string_view of, ScratchLayout& workspace) const {
    std::span<int32_t> values;
    if (has(args, from)) {
      values = int32_elements(operand(args, from), workspace);
    } else if (shift != 0) {
      values = {workspace.take<int32_t>(1), 1};
      values[0] = 0;
    } else {
      return {};
    }
    const auto size = std::ssize(values);
    origin_.check(size == 1 || size == extent || size == extent * batch,
                  "{} has {} zero points, expected 1 or {}", of, size, extent);
    for (int32_t& value : values) value -= shift;
    if (std::ranges::all_of(values, [](int32_t zero) { return zero == 0; })) return {};
    return values;
  }

  // One zero point per position; null if there are none.
  static const int32_t* filled(ZeroPoints zeros, int64_t count, ScratchLayout& workspace) {
    if (zeros.size() != 1) return zeros.empty() ? nullptr : zeros.data();
    auto* all = workspace.take<int32_t>(count);
    std::fill_n(all, count, zeros[0]);
    return all;
  }

  MatmulCall call_for(int32_t a_zero, const int32_t* a_zeros, const int32_t* b_zeros) const {
    MatmulCall call;
    call.isa = isa_;
    call.type = type_;
    call.a_zero = a_zero;
    call.a_zeros = a_zeros;
    call.b_zeros = b_zeros;
    call.epilogue.out = ElementType::i32;
    return call;
  }

  void run_per_batch(const MatmulShape& shape, ZeroPoints a_zeros, ZeroPoints b_zeros,
                     ScratchLayout& workspace, ThreadPool* pool) const {
    const auto part = [](ZeroPoints zeros, int64_t extent, int64_t i) -> const int32_t* {
      return zeros.empty() ? nullptr : zeros.data() + (std::ssize(zeros) > extent ? i * extent : 0);
    };
    const auto spread = [&](ZeroPoints zeros, int64_t extent) -> ZeroPoints {
      if (zeros.size() != 1) return zeros;
      return {filled(zeros, extent, workspace), static_cast<size_t>(extent)};
    };
    const ZeroPoints rows = spread(a_zeros, shape.m), columns = spread(b_zeros, shape.n);
    for (int64_t i = 0; i < shape.batch; ++i) {
      run_gemm(shape, i, call_for(0, part(rows, shape.m, i), part(columns, shape.n, i)),
               packed_ ? &*packed_ : nullptr, pool);
    }
  }

  std::string name_;
  OpOrigin origin_;
  Isa isa_;
  Places at_;
  GemmType type_ = GemmType::u8s8;
  std::optional<PackedMatrix> packed_;
  TunedGemms gemms_;
};

bool is_vector(const Instruction& instruction, int operand) {
  return instruction.operands()[static_cast<size_t>(operand)]->type().rank() <= 1;
}

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const Places& at = places_of(instruction);
  const std::string reason = why_no_gemm(element_of(instruction, static_cast<size_t>(at.a)),
                                         element_of(instruction, static_cast<size_t>(at.b)));
  if (!reason.empty() || at.y_scale < 0) return reason;
  for (const int operand : {at.a_zero, at.b_zero, at.a_scale, at.b_scale}) {
    if (!is_vector(instruction, operand)) return "scales or zero points differ per batch element";
  }
  if (!is_single(instruction, at.y_scale) || !is_single(instruction, at.y_zero)) {
    return "the result has several scales or zero points";
  }
  if (!is_single(instruction, at.a_scale) && !is_single(instruction, at.b_scale)) {
    return "both operands have several scales";
  }
  return "";
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  return {std::make_unique<MatmulInteger>(instruction, constants, isa), ""};
}

}  // namespace

const KernelEntry kMatmulInteger{ops::matmul_integer, why_not, make};
const KernelEntry kQlinearMatmul{ops::qlinear_matmul, why_not, make};

}  // namespace lathe::cpu
