// SPDX-License-Identifier: MIT
// matmul_integer and qlinear_matmul: exact GEMM of 8-bit integers with zero points.
#include "ops/support/convolution.h"
#include "ops/support/quantization.h"
#include "targets/cpu/gemm.h"
#include "targets/cpu/kernel_table.h"

namespace lathe::cpu {
namespace {

// Operand indices of an op; -1: none.
struct Places {
  int a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero;
};
constexpr Places kInteger{0, -1, 2, 1, -1, 3, -1, -1};
constexpr Places kQlinear{0, 1, 2, 3, 4, 5, 6, 7};

const Places& places_of(const Instruction& instruction) {
  return instruction.op().name == "matmul_integer" ? kInteger : kQlinear;
}

// Offset that packing subtracts from the elements of b.
int32_t packed_shift(ElementType b) { return b == ElementType::u8 ? 128 : 0; }

class MatmulInteger final : public Kernel {
 public:
  MatmulInteger(const Instruction& instruction, Constants constants, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
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

  void launch(Evaluation& c) const override {
    with_dense_result(c, [&](const TensorView& y) {
      const MatmulShape shape(c.in(at_.a), c.in(at_.b), y);
      const std::vector<int32_t> a_zeros = zeros(c, at_.a_zero, shape.m, shape.batch, 0, "a");
      const std::vector<int32_t> b_zeros =
          zeros(c, at_.b_zero, shape.n, shape.batch, packed_shift(c.in(at_.b).type), "b");
      // Zero points per batch require one GEMM per batch element.
      const bool per_batch = std::ssize(a_zeros) > std::max<int64_t>(1, shape.m) ||
                             std::ssize(b_zeros) > std::max<int64_t>(1, shape.n);
      if (per_batch) return run_per_batch(c, shape, a_zeros, b_zeros);
      const std::vector<int32_t> columns = filled(b_zeros, shape.n);
      // Batch rows count on as rows of one GEMM.
      std::vector<int32_t> rows;
      for (int64_t i = 0; a_zeros.size() > 1 && i < shape.batch; ++i) {
        rows.insert(rows.end(), a_zeros.begin(), a_zeros.end());
      }
      MatmulCall call =
          call_for(a_zeros.size() == 1 ? a_zeros[0] : 0, rows.empty() ? nullptr : rows.data(),
                   columns.empty() ? nullptr : columns.data());
      Requantisation to(*this, c, y.type, shape);
      to.apply(call.epilogue);
      run_gemms(shape, call, packed_ ? &*packed_ : nullptr, c.pool);
    });
  }

 private:
  // qlinear_matmul: (sum · factor), requantised to y.
  class Requantisation {
   public:
    Requantisation(const MatmulInteger& kernel, const Evaluation& c, ElementType out,
                   const MatmulShape& shape)
        : out_(out) {
      const Places& at = kernel.at_;
      if (at.y_scale < 0) return;
      const std::vector<float> a = float_values(c.in(at.a_scale));
      const std::vector<float> b = float_values(c.in(at.b_scale));
      const float y = float_values(c.in(at.y_scale))[0];
      const auto fits = [](size_t size, int64_t extent) {
        return size == 1 || static_cast<int64_t>(size) == extent;
      };
      c.check(fits(a.size(), shape.m) && fits(b.size(), shape.n),
              "{} and {} scales for {} rows and {} columns", a.size(), b.size(), shape.m, shape.n);
      const bool by_row = a.size() > 1;
      for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        factors_.push_back(a[by_row ? i : 0] * b[by_row ? 0 : i] / y);
      }
      // Batch rows count on as rows of one GEMM.
      for (int64_t i = 1; by_row && i < shape.batch; ++i) {
        for (size_t j = 0; j < a.size(); ++j) factors_.push_back(factors_[j]);
      }
      step_.kind = EpilogueStep::Kind::mul;
      step_.operand.data = factors_.data();
      step_.operand.row_stride = by_row ? 1 : 0;
      step_.operand.column_stride = !by_row && b.size() > 1 ? 1 : 0;
      zero_ = static_cast<float>(c.values(at.y_zero)[0]);
    }
    void apply(Epilogue& epilogue) {
      epilogue.out = out_;
      if (factors_.empty()) return;
      epilogue.steps = {&step_, 1};
      epilogue.out_zero.scale = zero_;
    }

   private:
    ElementType out_;
    std::vector<float> factors_;
    EpilogueStep step_;
    float zero_ = 0;
  };

  // Zero points minus `shift`: one, `extent`, or `extent` per batch element. Empty if all are 0.
  static std::vector<int32_t> zeros(const Evaluation& c, int operand, int64_t extent, int64_t batch,
                                    int32_t shift, std::string_view of) {
    std::vector<int64_t> values{0};
    if (operand >= 0 && c.has(operand)) values = c.values(operand);
    const auto size = static_cast<int64_t>(values.size());
    c.check(size == 1 || size == extent || size == extent * batch,
            "{} has {} zero points, expected 1 or {}", of, size, extent);
    std::vector<int32_t> out;
    for (const int64_t value : values) out.push_back(static_cast<int32_t>(value) - shift);
    const bool none = std::all_of(out.begin(), out.end(), [](int32_t zero) { return zero == 0; });
    return none ? std::vector<int32_t>{} : out;
  }

  static std::vector<int32_t> filled(const std::vector<int32_t>& zeros, int64_t count) {
    return zeros.size() == 1 ? std::vector<int32_t>(static_cast<size_t>(count), zeros[0]) : zeros;
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

  void run_per_batch(const Evaluation& c, const MatmulShape& shape,
                     const std::vector<int32_t>& a_zeros,
                     const std::vector<int32_t>& b_zeros) const {
    const auto part = [](const std::vector<int32_t>& zeros, int64_t extent, int64_t i) {
      const auto size = static_cast<size_t>(extent);
      if (zeros.size() <= size) return filled(zeros, extent);
      const auto begin = zeros.begin() + i * extent;
      return std::vector<int32_t>(begin, begin + extent);
    };
    for (int64_t i = 0; i < shape.batch; ++i) {
      const std::vector<int32_t> rows = part(a_zeros, shape.m, i);
      const std::vector<int32_t> columns = part(b_zeros, shape.n, i);
      const MatmulCall call = call_for(0, rows.empty() ? nullptr : rows.data(),
                                       columns.empty() ? nullptr : columns.data());
      run_gemm(shape, i, call, packed_ ? &*packed_ : nullptr, c.pool);
    }
  }

  std::string name_;
  Isa isa_;
  Places at_;
  GemmType type_ = GemmType::u8s8;
  std::optional<PackedMatrix> packed_;
};

bool is_single(const Instruction& instruction, int operand) {
  const Type& type = instruction.operands()[static_cast<size_t>(operand)]->type();
  for (const Dim& dim : *type.dims) {
    if (!(dim == Dim(1))) return false;
  }
  return true;
}

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

const KernelEntry kMatmulInteger{"matmul_integer", why_not, make};
const KernelEntry kQlinearMatmul{"qlinear_matmul", why_not, make};

}  // namespace lathe::cpu
