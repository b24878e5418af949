// SPDX-License-Identifier: MIT
// pair: fused depthwise + pointwise convolutions, in either order. Operands: x 0, w 1 and bias 2 of
// the first, w 4 and bias 5 of the second.
#include "bench/kernels/fused_dw_pw.h"

#include "base/error.h"
#include "bench/kernels/conv_operands.h"
#include "bench/kernels/inputs.h"
#include "targets/cpu/kernels/conv/fused_dw_pw.h"

namespace lathe::bench {
namespace {

using namespace lathe::cpu;

ConvProblem stage_of(const Problem& fused, bool first) {
  const Problem p = fused_stage(fused, first);
  ConvProblem out;
  out.batch = p["n"];
  out.channels = p["ic"];
  out.outputs = p["oc"];
  out.groups = p["g"];
  out.axes[1] = {p["ih"], output_height(p), p["kh"], p["sh"], p["dh"], p["pt"]};
  out.axes[2] = {p["iw"], output_width(p), p["kw"], p["sw"], p["dw"], p["pl"]};
  out.x_type = out.y_type = p.type == "bf16" ? ElementType::bf16 : ElementType::f32;
  return out;
}

FusedDwPwProblem problem_of(const Problem& p) {
  check(p.type != "int8", ErrorKind::unsupported,
        "fused convolutions of {} are not supported, expected f32 or bf16", p.type);
  return {stage_of(p, true), stage_of(p, false)};
}

Isa best() {
  const std::optional<Isa> isa = best_isa();
  check(isa.has_value(), ErrorKind::unsupported,
        "no kernels for this processor ({} known instruction sets)", kIsaCount);
  return *isa;
}

class ReadyFusedDwPw final : public Ready {
 public:
  ReadyFusedDwPw(const Problem& p, ThreadPool& pool)
      : p_(problem_of(p)), isa_(best()), fused_(p_, isa_), pool_(pool) {
    for (int64_t i = 0; i < rotations(p); ++i) {
      sets_.push_back(std::make_unique<Set>(bytes_for(p_.first.x_type, input_values()),
                                            bytes_for(p_.second.y_type, results()),
                                            static_cast<int64_t>(fused_.first().packed_bytes()),
                                            static_cast<int64_t>(fused_.second().packed_bytes())));
      Set& set = *sets_.back();
      fill(set.x.data(), p_.first.x_type, operand_values(0, input_values(), Range::real),
           [&](int64_t k) { return last(k, p_.first.channels, p_.first.input_positions()); });
      pack(fused_.first(), p_.first, 1, set.first.data());
      pack(fused_.second(), p_.second, 4, set.second.data());
    }
    for (const bool first : {true, false}) {
      Half& half = first ? first_ : second_;
      half.bias =
          operand_values(first ? 2 : 5, first ? p_.first.outputs : p_.second.outputs, Range::real);
      half.steps.push_back({EpilogueStep::Kind::add, {half.bias.data(), ElementType::f32, 0, 1}});
      const std::string f = fused_stage(p, first).activation;
      const auto activate = [&](Activation which) {
        half.steps.push_back({EpilogueStep::Kind::activate, {}, which, 1, 0});
      };
      if (f == "relu") activate(Activation::relu);
      if (f == "silu") activate(Activation::silu);
      if (f == "hard_swish") activate(Activation::hard_swish);
    }
  }

  void run(int64_t count) override {
    for (int64_t i = 0; i < count; ++i) {
      compute(*sets_[next_]);
      next_ = (next_ + 1) % sets_.size();
    }
  }
  std::vector<float> result() override {
    Set& set = *sets_.front();
    compute(set);
    std::vector<float> out(static_cast<size_t>(results()));
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t at =
          last(static_cast<int64_t>(i), p_.second.outputs, p_.second.output_positions());
      out[i] = get(set.y.data() + bytes_for(p_.second.y_type, at), p_.second.y_type);
    }
    return out;
  }
  std::string_view isa() const override { return to_string(isa_); }

 private:
  struct Set {
    Set(int64_t x_bytes, int64_t y_bytes, int64_t first_bytes, int64_t second_bytes)
        : x(x_bytes), y(y_bytes), first(first_bytes), second(second_bytes) {}
    Pages x, y, first, second;
  };
  struct Half {
    std::vector<float> bias;
    std::vector<EpilogueStep> steps;
  };

  int64_t input_values() const {
    return p_.first.batch * p_.first.channels * p_.first.input_positions();
  }
  int64_t results() const {
    return p_.second.batch * p_.second.outputs * p_.second.output_positions();
  }
  void pack(const Convolution& conv, const ConvProblem& p, uint64_t operand, std::byte* to) const {
    const int64_t count = p.outputs * p.group_channels() * p.taps();
    std::vector<std::byte> given(static_cast<size_t>(bytes_for(p.x_type, count)));
    fill(given.data(), p.x_type, operand_values(operand, count, Range::real),
         [](int64_t i) { return i; });
    conv.pack({given.data(), p.x_type}, to, &pool_);
  }

  void compute(Set& set) {
    FusedDwPwCall call;
    call.first.x = set.x.data();
    call.first.weights = set.first.data();
    call.first.epilogue.steps = first_.steps;
    call.first.epilogue.out = p_.first.y_type;
    call.first.pool = &pool_;
    call.second.weights = set.second.data();
    call.second.y = set.y.data();
    call.second.epilogue.steps = second_.steps;
    call.second.epilogue.out = p_.second.y_type;
    fused_.run(call);
  }

  const FusedDwPwProblem p_;
  const Isa isa_;
  const FusedDwPw fused_;
  ThreadPool& pool_;
  Half first_, second_;
  std::vector<std::unique_ptr<Set>> sets_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Ready> prepare_fused_dw_pw(const Problem& problem, ThreadPool& pool) {
  return std::make_unique<ReadyFusedDwPw>(problem, pool);
}

}  // namespace lathe::bench
