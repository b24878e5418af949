// SPDX-License-Identifier: MIT
#include "ops/support/linear_attention.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ops/support/dense_operand.h"
#include "ops/support/f32_result.h"

namespace lathe {
namespace {

DenseOperand floats(const TensorView& view) { return DenseOperand(view, ElementType::f32); }

class Recurrence {
 public:
  explicit Recurrence(const LinearRecurrence& r)
      : rule_(r.rule),
        heads_(r.heads),
        kv_heads_(r.kv_heads),
        query_(floats(r.query)),
        key_(floats(r.key)),
        value_(floats(r.value)),
        decay_(r.decay ? floats(*r.decay) : DenseOperand()),
        beta_(r.beta ? floats(*r.beta) : DenseOperand()),
        y_(r.y),
        state_(r.present),
        slots_(std::max<int64_t>(r.window, 1)) {
    length_ = query_.extent(1);
    keys_ = query_.extent(2) / heads_;
    values_ = value_.extent(2) / kv_heads_;
    key_heads_ = keys_ == 0 ? 1 : key_.extent(2) / keys_;
    if (rule_.gated) decay_width_ = decay_.extent(2);
    if (rule_.delta) beta_width_ = beta_.extent(2);
    check(key_heads_ > 0 && kv_heads_ % key_heads_ == 0, ErrorKind::invalid_argument,
          "got {} key heads for {} states", key_heads_, kv_heads_);
    check(!rule_.gated || decay_width_ == kv_heads_ || decay_width_ == kv_heads_ * keys_,
          ErrorKind::invalid_argument, "decay has {} columns for {} heads of {}", decay_width_,
          kv_heads_, keys_);
    check(!rule_.delta || beta_width_ == kv_heads_ || beta_width_ == 1, ErrorKind::invalid_argument,
          "beta has {} columns for {} heads", beta_width_, kv_heads_);
    const double given = r.scale;
    scale_ = static_cast<float>(given != 0 ? given : 1 / std::sqrt(static_cast<double>(keys_)));
    if (r.past) {
      const DenseOperand past =
          floats(r.window > 0 ? select_axis(*r.past, 0, slots_ - 1) : *r.past);
      std::copy_n(past.as<float>(), slot_size(), slot(slots_ - 1));
    }
  }

  void run(ThreadPool* pool) const {
    parallel_for(pool, query_.extent(0) * kv_heads_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) run_head(at / kv_heads_, at % kv_heads_);
    });
    y_.store();
    state_.store();
  }

 private:
  int64_t slot_size() const { return state_.count() / slots_; }
  float* slot(int64_t i) const { return state_.data() + i * slot_size(); }

  void run_head(int64_t b, int64_t head) const {
    const int64_t at = (b * kv_heads_ + head) * keys_ * values_;
    float* s = slot(slots_ - 1) + at;
    const ScratchArray<float> update(values_);
    for (int64_t t = 0; t < length_; ++t) {
      const int64_t row = b * length_ + t;
      const float* k =
          key_.as<float>() + row * key_.extent(2) + head * key_heads_ / kv_heads_ * keys_;
      const float* v = value_.as<float>() + row * value_.extent(2) + head * values_;
      if (rule_.gated) fade(s, row, head);
      std::copy_n(v, values_, update.data());
      if (rule_.delta) apply_delta_rule(s, k, row, head, update);
      for (int64_t i = 0; i < keys_; ++i) {
        for (int64_t j = 0; j < values_; ++j) {
          s[i * values_ + j] += k[i] * update[static_cast<size_t>(j)];
        }
      }
      read(s, row, head);
      const int64_t behind = length_ - 1 - t;
      if (behind > 0 && behind < slots_) {
        std::copy_n(s, keys_ * values_, slot(slots_ - 1 - behind) + at);
      }
    }
  }

  void fade(float* s, int64_t row, int64_t head) const {
    const bool per_key = decay_width_ != kv_heads_;
    const float* g = decay_.as<float>() + row * decay_width_ + head * (per_key ? keys_ : 1);
    for (int64_t i = 0; i < keys_; ++i) {
      const float factor = std::exp(g[per_key ? i : 0]);
      for (int64_t j = 0; j < values_; ++j) s[i * values_ + j] *= factor;
    }
  }

  // Delta rule: update ← β · (update - Sᵀk)
  void apply_delta_rule(const float* s, const float* k, int64_t row, int64_t head,
                        const ScratchArray<float>& update) const {
    for (int64_t i = 0; i < keys_; ++i) {
      for (int64_t j = 0; j < values_; ++j) {
        update[static_cast<size_t>(j)] -= k[i] * s[i * values_ + j];
      }
    }
    const float beta = beta_.as<float>()[row * beta_width_ + (beta_width_ == 1 ? 0 : head)];
    for (float& x : update) x *= beta;
  }

  // Computes the outputs that read this state.
  void read(const float* s, int64_t row, int64_t head) const {
    const int64_t outputs = std::max(heads_, kv_heads_);
    const int64_t group = outputs / kv_heads_;
    for (int64_t out = head * group; out < (head + 1) * group; ++out) {
      const float* q = query_.as<float>() + row * query_.extent(2) + out * heads_ / outputs * keys_;
      float* y = y_.data() + (row * outputs + out) * values_;
      std::fill_n(y, values_, 0.0F);
      for (int64_t i = 0; i < keys_; ++i) {
        for (int64_t j = 0; j < values_; ++j) y[j] += q[i] * s[i * values_ + j];
      }
      for (int64_t j = 0; j < values_; ++j) y[j] *= scale_;
    }
  }

  LinearRule rule_;
  int64_t heads_;
  int64_t kv_heads_;
  DenseOperand query_;
  DenseOperand key_;
  DenseOperand value_;
  DenseOperand decay_;
  DenseOperand beta_;
  F32Result y_;
  F32Result state_;
  int64_t slots_;
  int64_t length_ = 0;
  int64_t keys_ = 0;
  int64_t values_ = 0;
  int64_t key_heads_ = 1;
  int64_t decay_width_ = 0;
  int64_t beta_width_ = 0;
  float scale_ = 1;
};

}  // namespace

LinearAttentionAttributes::LinearAttentionAttributes(const InstructionReader& c)
    : rule{c.text("update_rule").starts_with("gated"), c.text("update_rule").ends_with("delta")},
      heads(c.integer("q_num_heads")),
      kv_heads(c.integer("kv_num_heads")),
      scale(c.number("scale")),
      window(c.integer("state_window")) {}

void LinearRecurrence::run(ThreadPool* pool) const { Recurrence(*this).run(pool); }

}  // namespace lathe
