// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/linear_attention.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/kernels/recurrent/linear_attention_table.h"

namespace lathe::cpu {

[[gnu::weak]] extern const LinearAttentionKernels kLinearAttentionAvx2, kLinearAttentionAvx512;

namespace {

class Run {
 public:
  Run(const LinearAttentionProblem& problem, std::span<const LinearAttentionRows> sequences,
      Isa isa)
      : p_(problem),
        sequences_(sequences),
        kernels_(
            *in_build(isa >= Isa::avx512 ? &kLinearAttentionAvx512 : &kLinearAttentionAvx2, isa)),
        width_(problem.gated ? problem.states * (problem.decay_by_key ? problem.keys : 1) : 0),
        strips_((problem.values + kernels_.columns - 1) / kernels_.columns) {
    if (width_ > 0) compute_factors(vector_ops(isa));
  }

  void run(ThreadPool* pool) const {
    const int64_t each = p_.states * strips_;
    parallel_for(pool, std::ssize(sequences_) * each, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        run_strip(static_cast<size_t>(at / each), at % each / strips_, at % strips_);
      }
    });
  }

 private:
  // Computes f of all tokens once for all strips.
  void compute_factors(const VectorOps& ops) {
    int64_t tokens = 0;
    for (const LinearAttentionRows& x : sequences_) tokens += x.tokens;
    const int64_t bytes = tokens * width_ * static_cast<int64_t>(sizeof(float));
    auto* to = reinterpret_cast<float*>(thread_scratch(ScratchUse::caller, bytes));
    factors_ = to;
    for (const LinearAttentionRows& x : sequences_) {
      for (int64_t t = 0; t < x.tokens; ++t, to += width_) {
        ops.activate(Activation::exp, 0, 0, x.decay + t * x.decay_stride, to, width_);
      }
    }
  }

  void run_strip(size_t sequence, int64_t head, int64_t strip) const {
    const LinearAttentionRows& x = sequences_[sequence];
    const float* factors = factors_;
    for (size_t before = 0; before < sequence && factors != nullptr; ++before) {
      factors += sequences_[before].tokens * width_;
    }
    const int64_t first = strip * kernels_.columns;
    LinearToken token;
    token.keys = p_.keys;
    token.columns = std::min(kernels_.columns, p_.values - first);
    token.scale = p_.scale;
    token.outputs = p_.outputs / p_.states;
    token.q_pitch = p_.query_heads == p_.outputs ? p_.keys : 0;
    token.y_pitch = p_.values;
    const auto place = [&](ScratchLayout layout) {
      state_of(layout);
      layout.take<float>(p_.keys);
      layout.take<float>(p_.keys);
      return layout.bytes();
    };
    ScratchLayout layout(thread_scratch(ScratchUse::task, place(ScratchLayout())));
    float* state = state_of(layout);
    auto* by_key = layout.take<float>(p_.keys);
    auto* decayed = layout.take<float>(p_.keys);
    std::fill_n(by_key, p_.keys, 1.0F);
    token.factors = by_key;
    token.decayed = p_.delta ? decayed : nullptr;
    if (x.past == nullptr) std::fill_n(state, p_.keys * kernels_.columns, 0.0F);
    const int64_t column = head * p_.keys * p_.values + first;
    const int64_t output = head * token.outputs;
    for (int64_t t = 0; t < x.tokens; ++t) {
      const bool begins = t == 0 && x.past != nullptr, ends = t + 1 == x.tokens;
      token.from = begins ? x.past + column : state;
      token.from_pitch = begins ? p_.values : kernels_.columns;
      token.to = ends ? x.present + column : state;
      token.to_pitch = ends ? p_.values : kernels_.columns;
      token.k = x.k + t * x.k_stride + head * p_.key_heads / p_.states * p_.keys;
      token.v = x.v + t * x.v_stride + head * p_.values + first;
      token.q = x.q + t * x.q_stride + output * p_.query_heads / p_.outputs * p_.keys;
      token.y = x.y + t * x.y_stride + output * p_.values + first;
      if (p_.delta) token.beta = x.beta[t * x.beta_stride + (p_.one_beta ? 0 : head)];
      if (factors != nullptr && p_.decay_by_key) {
        token.factors = factors + t * width_ + head * p_.keys;
      } else if (factors != nullptr) {
        std::fill_n(by_key, p_.keys, factors[t * width_ + head]);
      }
      for (int64_t i = 0; i < p_.keys; ++i) decayed[i] = token.factors[i] * token.k[i];
      kernels_.token(token);
    }
  }

  float* state_of(ScratchLayout& layout) const {
    return layout.take<float>(p_.keys * kernels_.columns);
  }

  const LinearAttentionProblem& p_;
  const std::span<const LinearAttentionRows> sequences_;
  const LinearAttentionKernels& kernels_;
  const int64_t width_;  // factors of a token
  const int64_t strips_;
  const float* factors_ = nullptr;
};

}  // namespace

void run_linear_attention(const LinearAttentionProblem& problem,
                          std::span<const LinearAttentionRows> sequences, Isa isa,
                          ThreadPool* pool) {
  if (sequences.empty() || problem.values == 0) return;
  Run(problem, sequences, isa).run(pool);
}

}  // namespace lathe::cpu
