// SPDX-License-Identifier: MIT
// Benchmarks Lathe's GEMM. Constant weights are packed; all other operands are row-major.
#include "bench/kernels/matmul.h"

#include "bench/kernels/operands.h"
#include "targets/cpu/kernels/gemm/matmul.h"

namespace lathe::bench {
namespace {

using cpu::GemmType;

GemmType gemm_type_of(const std::string& type) {
  return type == "f32" ? GemmType::f32 : type == "bf16" ? GemmType::bf16 : GemmType::u8s8;
}

class ReadyMatmul final : public Ready {
 public:
  ReadyMatmul(const Problem& p, ThreadPool& pool)
      : pool_(pool),
        is_constant_(p["weights"] != 0),
        is_int8_(p.type == "int8"),
        batch_(std::max<int64_t>(1, p["batch"])),
        epilogue_(p.activation, is_int8_ ? int8_scales(p["n"], p["k"]) : std::vector<float>{},
                  p["bias"] != 0 ? operand_values(2, p["n"], Range::real) : std::vector<float>{},
                  residual_of(p), p["n"],
                  is_int8_ ? ElementType::f32 : element_type(p.type, false)) {
    call_.isa = *cpu::best_isa();
    call_.type = gemm_type_of(p.type);
    call_.m = p["m"];
    call_.n = p["n"];
    call_.k = p["k"];
    call_.a_type = element_type(p.type, true);
    call_.a_row_stride = call_.k;
    call_.out_row_stride = call_.n;
    call_.epilogue = epilogue_.get();
    if (is_constant_) {
      call_.m *= batch_;
    } else {
      call_.batch = batch_;
      call_.a_batch_stride = call_.m * call_.k;
      call_.out_batch_stride = call_.m * call_.n;
    }
    const Tensor a = tensor_of(
        call_.a_type,
        operand_values(0, batch_ * p["m"] * call_.k, is_int8_ ? Range::unsigned8 : Range::real));
    const Tensor b = tensor_of(element_type(p.type, false),
                               operand_values(1, (is_constant_ ? 1 : batch_) * call_.k * call_.n,
                                              is_int8_ ? Range::signed8 : Range::real));
    b_type_ = b.type();
    for (int64_t i = 0; i < rotations(p); ++i) {
      a_.push_back(a.clone());
      b_.push_back(is_constant_ ? packed(b) : b.clone());
      out_.emplace_back(call_.epilogue.out, Dims{batch_ * p["m"] * call_.n});
    }
  }

  void run(int64_t count) override {
    for (int64_t i = 0; i < count; ++i) {
      run_once(next_);
      next_ = (next_ + 1) % a_.size();
    }
  }
  std::vector<float> result() override {
    run_once(0);
    return floats_of(out_[0]);
  }
  std::string_view isa() const override { return cpu::to_string(call_.isa); }

 private:
  static Tensor residual_of(const Problem& p) {
    if (p["sum"] == 0) return {};
    const int64_t count = std::max<int64_t>(1, p["batch"]) * p["m"] * p["n"];
    const ElementType type = p.type == "int8" ? ElementType::f32 : element_type(p.type, false);
    return tensor_of(type, operand_values(3, count, Range::real));
  }

  cpu::PackSource source(const Tensor& b) const {
    return {b.data(), b_type_, call_.k, call_.n, call_.n, 1};
  }

  Tensor packed(const Tensor& b) {
    const cpu::BrgemmKernel& kernel = cpu::brgemm_kernel(call_.isa, call_.type);
    const auto layout = cpu::packed_layout(kernel, call_.type, call_.k, call_.n);
    Tensor out = bytes_of(static_cast<size_t>(layout.bytes));
    cpu::pack_b(kernel, call_.type, source(b), out.data(), &pool_);
    return out;
  }

  void run_once(size_t rotation) {
    call_.a = a_[rotation].data();
    call_.out = out_[rotation].data();
    call_.b = b_[rotation].data();
    if (is_constant_) {
      matmul(call_, &pool_);
    } else {
      matmul_dynamic(call_, source(b_[rotation]), call_.k * call_.n, &pool_);
    }
  }

  ThreadPool& pool_;
  bool is_constant_;
  bool is_int8_;
  int64_t batch_;
  CaseEpilogue epilogue_;
  cpu::MatmulCall call_;
  ElementType b_type_ = ElementType::f32;
  std::vector<Tensor> a_;
  std::vector<Tensor> b_;
  std::vector<Tensor> out_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Ready> prepare_matmul(const Problem& problem, ThreadPool& pool) {
  return std::make_unique<ReadyMatmul>(problem, pool);
}

}  // namespace lathe::bench
