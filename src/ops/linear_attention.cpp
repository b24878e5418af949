// SPDX-License-Identifier: MIT
// A state S [key size, value size] per batch row and key head, updated token by token:
//   S ← exp(g) · S;  S ← S + k ⊗ (v, or β · (v - Sᵀk));  o = scale · Sᵀq
// g and β are 0 and 1 where the rule has none. With more key heads than query heads a query head
// serves several; otherwise several query heads read one state.
#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/float_result.h"
#include "ops/quantization.h"

namespace lathe {
namespace {

enum Operand { kQuery, kKey, kValue, kPast, kDecay, kBeta };

struct Rule {
  bool gated;
  bool delta;
};

template <class C>
Rule rule_of(const C& c) {
  const std::string& name = c.text("update_rule");
  c.check(name == "linear" || name == "gated" || name == "delta" || name == "gated_delta",
          "update_rule is '{}', expected linear, gated, delta or gated_delta", escape(name));
  const Rule rule{name.starts_with("gated"), name.ends_with("delta")};
  c.check((!rule.gated || c.has(kDecay)) && (!rule.delta || c.has(kBeta)),
          "update_rule {} needs decay (given: {}) or beta (given: {})", escape(name), c.has(kDecay),
          c.has(kBeta));
  return rule;
}

void infer_linear_attention(Infer& c) {
  rule_of(c);
  const int64_t heads = c.integer("q_num_heads");
  const int64_t kv_heads = c.integer("kv_num_heads");
  c.check(heads > 0 && kv_heads > 0 && (heads % kv_heads == 0 || kv_heads % heads == 0),
          "q_num_heads {} and kv_num_heads {}: one must be a multiple of the other", heads,
          kv_heads);
  for (const int operand : {kQuery, kKey, kValue, kDecay, kBeta}) {
    c.check(!c.has(operand) || c.rank(operand) == 3, "operand {} has rank {}, expected 3", operand,
            c.has(operand) ? c.rank(operand) : 0);
    for (int axis = 0; axis < 2 && c.has(operand); ++axis) {
      c.require_equal(c.dim(operand, axis), c.dim(kQuery, axis),
                      "batch and length of the operands");
    }
  }
  c.require_equal(Dim::mod(c.dim(kQuery, 2), heads), 0, "columns of query by heads");
  c.require_equal(Dim::mod(c.dim(kValue, 2), kv_heads), 0, "columns of value by heads");
  const Dim keys = Dim::floor_div(c.dim(kQuery, 2), heads);
  const Dim values = Dim::floor_div(c.dim(kValue, 2), kv_heads);
  c.require_equal(Dim::mod(c.dim(kKey, 2), keys), 0, "columns of key by their size");
  const std::vector<Dim> state = {c.dim(kQuery, 0), kv_heads, keys, values};
  if (c.has(kPast)) {
    c.check(c.rank(kPast) == 4, "past_state has rank {}, expected 4", c.rank(kPast));
    for (int axis = 0; axis < 4; ++axis) {
      c.require_equal(c.dim(kPast, axis), state[static_cast<size_t>(axis)],
                      "extents of past_state");
    }
  }
  c.result(c.element(kQuery),
           {c.dim(kQuery, 0), c.dim(kQuery, 1), values * std::max(heads, kv_heads)});
  c.result(c.has(kPast) ? c.element(kPast) : c.element(kQuery), state);
}

class Recurrence {
 public:
  explicit Recurrence(Evaluation& c)
      : rule_(rule_of(c)),
        heads_(c.integer("q_num_heads")),
        kv_heads_(c.integer("kv_num_heads")),
        query_(float_tensor(c.in(kQuery))),
        key_(float_tensor(c.in(kKey))),
        value_(float_tensor(c.in(kValue))),
        decay_(c.has(kDecay) ? float_tensor(c.in(kDecay)) : Tensor()),
        beta_(c.has(kBeta) ? float_tensor(c.in(kBeta)) : Tensor()),
        y_(c.out(0)),
        state_(c.out(1)) {
    length_ = query_.dims()[1];
    keys_ = query_.dims()[2] / heads_;
    values_ = value_.dims()[2] / kv_heads_;
    key_heads_ = keys_ == 0 ? 1 : key_.dims()[2] / keys_;
    c.check(key_heads_ > 0 && kv_heads_ % key_heads_ == 0, "{} key heads for {} states", key_heads_,
            kv_heads_);
    if (rule_.gated) decay_width_ = decay_.dims()[2];
    if (rule_.delta) beta_width_ = beta_.dims()[2];
    c.check(!rule_.gated || decay_width_ == kv_heads_ || decay_width_ == kv_heads_ * keys_,
            "decay has {} columns for {} heads of {}", decay_width_, kv_heads_, keys_);
    c.check(!rule_.delta || beta_width_ == kv_heads_ || beta_width_ == 1,
            "beta has {} columns for {} heads", beta_width_, kv_heads_);
    const double scale = c.number("scale");
    scale_ = static_cast<float>(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(keys_)));
    const auto elements = static_cast<size_t>(state_.count());
    if (c.has(kPast)) {
      const Tensor past = float_tensor(c.in(kPast));
      std::copy_n(past.as<float>(), elements, state_.data());
    } else {
      std::fill_n(state_.data(), elements, 0.0F);
    }
  }

  void run(ThreadPool* pool) const {
    parallel_for(pool, query_.dims()[0] * kv_heads_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) run_head(at / kv_heads_, at % kv_heads_);
    });
    y_.store();
    state_.store();
  }

 private:
  void run_head(int64_t b, int64_t head) const {
    float* s = state_.data() + (b * kv_heads_ + head) * keys_ * values_;
    std::vector<float> update(static_cast<size_t>(values_));
    for (int64_t t = 0; t < length_; ++t) {
      const int64_t row = b * length_ + t;
      const float* k =
          key_.as<float>() + row * key_.dims()[2] + head * key_heads_ / kv_heads_ * keys_;
      const float* v = value_.as<float>() + row * value_.dims()[2] + head * values_;
      if (rule_.gated) fade(s, row, head);
      std::copy_n(v, values_, update.data());
      if (rule_.delta) {
        for (int64_t i = 0; i < keys_; ++i) {
          for (int64_t j = 0; j < values_; ++j)
            update[static_cast<size_t>(j)] -= k[i] * s[i * values_ + j];
        }
        const float beta = beta_.as<float>()[row * beta_width_ + (beta_width_ == 1 ? 0 : head)];
        for (float& x : update) x *= beta;
      }
      for (int64_t i = 0; i < keys_; ++i) {
        for (int64_t j = 0; j < values_; ++j)
          s[i * values_ + j] += k[i] * update[static_cast<size_t>(j)];
      }
      read(s, row, head);
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

  // The outputs that read this state.
  void read(const float* s, int64_t row, int64_t head) const {
    const int64_t outputs = std::max(heads_, kv_heads_);
    const int64_t group = outputs / kv_heads_;
    for (int64_t out = head * group; out < (head + 1) * group; ++out) {
      const float* q = query_.as<float>() + row * query_.dims()[2] + out * heads_ / outputs * keys_;
      float* y = y_.data() + (row * outputs + out) * values_;
      std::fill_n(y, values_, 0.0F);
      for (int64_t i = 0; i < keys_; ++i) {
        for (int64_t j = 0; j < values_; ++j) y[j] += q[i] * s[i * values_ + j];
      }
      for (int64_t j = 0; j < values_; ++j) y[j] *= scale_;
    }
  }

  Rule rule_;
  int64_t heads_;
  int64_t kv_heads_;
  Tensor query_;
  Tensor key_;
  Tensor value_;
  Tensor decay_;
  Tensor beta_;
  FloatResult y_;
  FloatResult state_;
  int64_t length_ = 0;
  int64_t keys_ = 0;
  int64_t values_ = 0;
  int64_t key_heads_ = 1;
  int64_t decay_width_ = 0;
  int64_t beta_width_ = 0;
  float scale_ = 1;
};

}  // namespace

static const Register linear_attention{{
    .name = "linear_attention",
    .doc = "Attention whose past is one matrix per head, updated by each token in turn.",
    .operands = {{"query", kFloats, Arity::one, 'T'},
                 {"key", kFloats, Arity::one, 'T'},
                 {"value", kFloats, Arity::one, 'T'},
                 {"past_state", kFloats, Arity::optional},
                 {"decay", kFloats, Arity::optional},
                 {"beta", kFloats, Arity::optional}},
    .attributes = {{"q_num_heads", AttributeKind::integer},
                   {"kv_num_heads", AttributeKind::integer},
                   {"scale", Attribute(0.0)},
                   {"update_rule", "gated_delta"}},
    .results = 2,
    .infer = infer_linear_attention,
    .eval = [](Evaluation& c) { Recurrence(c).run(c.pool); },
}};

}  // namespace lathe
