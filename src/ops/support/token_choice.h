// SPDX-License-Identifier: MIT
// Chooses a token from the logits [vocabulary] of one sequence: cut-offs of the distribution, in
// place, and inverse-CDF sampling. Excluded tokens become -infinity.
#pragma once

#include <cstdint>
#include <span>

namespace lathe {

struct ChoiceParameters {
  bool sample = false;  // false: the first of the largest logits
  int64_t top_k = 0;    // 0: all
  double temperature = 1;
  double top_p = 0;  // 0 and 1: all
  double min_p = 0;
  double typical_p = 1;
  double epsilon_cutoff = 0;
  double eta_cutoff = 0;
};

// Cut-offs. Each keeps the most likely token.
void divide_by_temperature(std::span<float> logits, double temperature);
void keep_top_k(std::span<float> logits, int64_t k);
// The fewest tokens, by falling probability, whose sum reaches p (Holtzman et al. 2020).
void keep_top_p(std::span<float> logits, double p);
void keep_min_p(std::span<float> logits, double p);
// Tokens by rising |surprise - entropy|, up to a sum of `mass` (Meister et al. 2023).
void keep_typical(std::span<float> logits, double mass);
void cut_epsilon(std::span<float> logits, double epsilon);
// Drops probabilities below min(ε, √ε · exp(-entropy)) (Hewitt et al. 2022).
void cut_eta(std::span<float> logits, double epsilon);

// All in order: temperature, top-k, top-p, min-p, typical, epsilon, eta.
void apply_cutoffs(std::span<float> logits, const ChoiceParameters& parameters);
// Those behind top-k.
void apply_late_cutoffs(std::span<float> logits, const ChoiceParameters& parameters);

// log Σ exp(x).
double log_sum_exp(std::span<const float> logits);

// The first of the largest logits; -1 if all are -infinity.
int32_t choose_largest(std::span<const float> logits);
// Inverse-CDF sample of the softmax: `uniform` in [0, 1) selects along ascending ids. -1 unless the
// largest logit is finite.
int32_t choose_by(std::span<const float> logits, double uniform);

}  // namespace lathe
