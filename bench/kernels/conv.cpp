// SPDX-License-Identifier: MIT
#include "bench/kernels/conv.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "bench/kernels/conv_operands.h"
#include "bench/kernels/inputs.h"
#include "targets/cpu/kernels/conv/convolution.h"

namespace lathe::bench {
namespace {

using namespace lathe::cpu;

Isa best() {
  const std::optional<Isa> isa = best_isa();
  check(isa.has_value(), ErrorKind::unsupported,
        "no kernels for this processor ({} known instruction sets)", kIsaCount);
  return *isa;
}

ConvProblem problem_of(const Problem& p) {
  ConvProblem out;
  out.batch = p["n"];
  out.channels = p["ic"];
  out.outputs = p["oc"];
  out.groups = p["g"];
  out.axes[1] = {p["ih"], output_height(p), p["kh"], p["sh"], p["dh"], p["pt"]};
  out.axes[2] = {p["iw"], output_width(p), p["kw"], p["sw"], p["dw"], p["pl"]};
  if (p.type == "int8") {
    out.x_type = ElementType::u8;
    out.y_type = p.activation == "relu" ? ElementType::u8 : ElementType::i8;
  } else {
    out.x_type = out.y_type = p.type == "bf16" ? ElementType::bf16 : ElementType::f32;
  }
  return out;
}

struct Set {
  Set(int64_t x_bytes, int64_t y_bytes) : x(x_bytes), y(y_bytes), residual(y_bytes) {}
  Pages x, y, residual;
};

class ReadyConv final : public Ready {
 public:
  ReadyConv(const Problem& p, ThreadPool& pool)
      : problem_(p),
        p_(problem_of(p)),
        isa_(best()),
        form_(p["direct"] != 0 ? ConvForm::direct : choose_form(p_, isa_)),
        conv_(make_convolution(form_, p_, isa_)),
        pool_(pool),
        bias_(operand_values(2, p_.outputs, Range::real)) {
    const bool int8 = p_.is_integer();
    const int64_t depth = p_.group_channels() * p_.taps();
    if (int8) scales_ = int8_scales(p_.outputs, depth);
    const auto x = operand_values(0, p_.batch * p_.channels * p_.input_positions(),
                                  int8 ? Range::unsigned8 : Range::real);
    const auto w = operand_values(1, p_.outputs * depth, int8 ? Range::signed8 : Range::real);
    const int64_t results = p_.batch * p_.outputs * p_.output_positions();
    const auto residual = operand_values(3, results, int8 ? Range::small_unsigned : Range::real);
    const ElementType w_type = int8 ? ElementType::i8 : p_.x_type;
    std::vector<std::byte> given(static_cast<size_t>(bytes_for(w_type, p_.outputs * depth)));
    fill(given.data(), w_type, w, [](int64_t i) { return i; });
    for (int64_t i = 0; i < rotations(p); ++i) {
      sets_.push_back(std::make_unique<Set>(bytes_for(p_.x_type, static_cast<int64_t>(x.size())),
                                            bytes_for(p_.y_type, results)));
      Set& set = *sets_.back();
      fill(set.x.data(), p_.x_type, x,
           [&](int64_t k) { return last(k, p_.channels, p_.input_positions()); });
      fill(set.residual.data(), p_.y_type, residual,
           [&](int64_t k) { return last(k, p_.outputs, p_.output_positions()); });
      std::memcpy(set.y.data(), set.residual.data(),
                  static_cast<size_t>(bytes_for(p_.y_type, results)));
    }
    for (int64_t i = 0; i < weight_rotations(p); ++i) {
      weights_.push_back(std::make_unique<Pages>(static_cast<int64_t>(conv_->packed_bytes())));
      std::byte* to = weights_.back()->data();
      if (i == 0) conv_->pack({given.data(), w_type}, to, &pool);
      if (i != 0) std::memcpy(to, weights_.front()->data(), conv_->packed_bytes());
    }
  }

  void run(int64_t count) override {
    for (int64_t i = 0; i < count; ++i) {
      compute(*sets_[next_ % sets_.size()], *weights_[next_ % weights_.size()]);
      ++next_;
    }
  }
  std::vector<float> result() override {
    Set& set = *sets_.front();
    const int64_t count = p_.batch * p_.outputs * p_.output_positions();
    std::memcpy(set.y.data(), set.residual.data(),
                static_cast<size_t>(bytes_for(p_.y_type, count)));
    compute(set, *weights_.front());
    std::vector<float> out(static_cast<size_t>(count));
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t at = last(static_cast<int64_t>(i), p_.outputs, p_.output_positions());
      out[i] = get(set.y.data() + bytes_for(p_.y_type, at), p_.y_type);
    }
    return out;
  }
  std::string_view isa() const override { return to_string(isa_); }
  int64_t extra_bytes() const override {
    const int64_t numbers = p_.outputs * p_.group_channels() * p_.taps();
    return static_cast<int64_t>(conv_->packed_bytes()) - bytes_for(p_.x_type, numbers);
  }

 private:
  void compute(Set& set, const Pages& weights) {
    using Kind = EpilogueStep::Kind;
    std::vector<EpilogueStep> steps;
    std::vector<int64_t> images;
    const auto add = [&](EpilogueStep step, int64_t image = 0) {
      steps.push_back(step);
      images.push_back(image);
    };
    if (!scales_.empty()) add({Kind::mul, {scales_.data(), ElementType::f32, 0, 1}});
    if (problem_["bias"] != 0) add({Kind::add, {bias_.data(), ElementType::f32, 0, 1}});
    if (problem_["sum"] != 0) {
      // Adds to y in place, as the peer's sum does.
      add({Kind::add, {set.y.data(), p_.y_type, p_.outputs, 1}},
          p_.outputs * p_.output_positions());
    }
    const std::string& f = problem_.activation;
    if (f == "relu") add({Kind::activate, {}, Activation::relu});
    if (f == "gelu") add({Kind::activate, {}, Activation::gelu});
    if (f == "silu") add({Kind::activate, {}, Activation::silu, 1, 0});
    if (f == "hard_swish") add({Kind::activate, {}, Activation::hard_swish});
    ConvCall call;
    call.x = set.x.data();
    call.weights = weights.data();
    call.y = set.y.data();
    call.epilogue.steps = steps;
    call.epilogue.out = p_.y_type;
    call.operand_images = images;
    call.pool = &pool_;
    conv_->run(call);
  }

  Problem problem_;
  ConvProblem p_;
  Isa isa_;
  ConvForm form_;
  std::unique_ptr<Convolution> conv_;
  ThreadPool& pool_;
  std::vector<float> bias_;
  std::vector<float> scales_;
  std::vector<std::unique_ptr<Set>> sets_;
  std::vector<std::unique_ptr<Pages>> weights_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Ready> prepare_conv(const Problem& problem, ThreadPool& pool) {
  return std::make_unique<ReadyConv>(problem, pool);
}

}  // namespace lathe::bench
