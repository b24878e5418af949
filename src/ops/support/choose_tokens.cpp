// SPDX-License-Identifier: MIT
#include "ops/support/choose_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/philox.h"
#include "base/thread_scratch.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

ChoiceParameters ChoiceOperands::parameters(int64_t sequence) const {
  return {.sample = integer(sequence, ChoiceInteger::sample) != 0,
          .top_k = integer(sequence, ChoiceInteger::top_k),
          .temperature = number(sequence, ChoiceNumber::temperature),
          .top_p = number(sequence, ChoiceNumber::top_p),
          .min_p = number(sequence, ChoiceNumber::min_p),
          .typical_p = number(sequence, ChoiceNumber::typical_p),
          .epsilon_cutoff = number(sequence, ChoiceNumber::epsilon_cutoff),
          .eta_cutoff = number(sequence, ChoiceNumber::eta_cutoff)};
}

bool ChoiceOperands::changes(int64_t sequence) const {
  const TensorView& bounds = c_.in(edit_bounds);
  const auto* bound = bounds.as<const int32_t>() + sequence * bounds.strides[0];
  return bound[0] < bound[bounds.strides[0]] || integer(sequence, ChoiceInteger::mask) >= 0;
}

const float* ChoiceOperands::row_in_place(int64_t row) const {
  const TensorView& x = c_.in(logits);
  if (x.type != ElementType::f32 || x.strides[1] != 1) return nullptr;
  return x.as<const float>() + row * x.strides[0];
}

void ChoiceOperands::read_row(int64_t row, std::span<float> to) const {
  const TensorView& from_view = c_.in(logits);
  const int64_t bytes = info(from_view.type).bits / 8;
  const int64_t stride = from_view.strides[1];
  const auto* from = from_view.as<const std::byte>() + row * from_view.strides[0] * bytes;
  if (stride == 1) {
    convert(ElementType::f32, to.data(), from_view.type, from, std::ssize(to));
  } else {
    for (int64_t i = 0; i < std::ssize(to); ++i) {
      const auto* element = from + i * stride * bytes;
      convert(ElementType::f32, &to[static_cast<size_t>(i)], from_view.type, element, 1);
    }
  }
  for (float& x : to) x = std::isnan(x) ? kNever : x;
}

bool ChoiceOperands::change(int64_t sequence, std::span<float> logits) const {
  const TensorView& bounds = c_.in(edit_bounds);
  const auto* bound = bounds.as<const int32_t>() + sequence * bounds.strides[0];
  const TensorView& list = c_.in(edits);
  const TensorView& values = c_.in(edit_values);
  const int64_t begin = std::max<int64_t>(bound[0], 0);
  const int64_t end = std::min<int64_t>({bound[bounds.strides[0]], list.dims[0], values.dims[0]});
  for (int64_t i = begin; i < end; ++i) {
    const int32_t token = at<int32_t>(list, i, 0);
    if (token < 0 || token >= std::ssize(logits)) continue;
    float& x = logits[static_cast<size_t>(token)];
    x = edited(x, static_cast<LogitEdit::Kind>(at<int32_t>(list, i, 1)),
               values.as<const double>()[i * values.strides[0]]);
    if (std::isnan(x)) x = kNever;  // as infinity - infinity
  }
  const int64_t mask = integer(sequence, ChoiceInteger::mask);
  if (mask < 0) return true;
  const TensorView& words = c_.in(masks);
  if (words.data == nullptr || mask >= words.dims[0]) return false;
  for (int64_t token = 0; token < std::ssize(logits); token += 32) {
    const uint32_t word =
        token / 32 < words.dims[1] ? at<uint32_t>(words, mask, token / 32) : uint32_t{0};
    if (word == ~uint32_t{0}) continue;
    const int64_t count = std::min<int64_t>(32, std::ssize(logits) - token);
    for (int64_t i = 0; i < count; ++i) {
      if ((word >> i & 1) == 0) logits[static_cast<size_t>(token + i)] = kNever;
    }
  }
  return true;
}

double ChoiceOperands::uniform(int64_t sequence) const {
  const auto word = [&](ChoiceInteger column) {
    return static_cast<uint64_t>(integer(sequence, column));
  };
  return philox_uniform(word(ChoiceInteger::seed), word(ChoiceInteger::sequence),
                        word(ChoiceInteger::position));
}

void ChoiceOperands::report_nothing(int64_t sequence) const {
  store_log_probability(sequence, 0);
  for (int64_t i = 0; i < rank_count(); ++i) store_likely(sequence, i, -1, 0);
}

void ChoiceOperands::report(int64_t sequence, int32_t token, std::span<float> logits) const {
  const int64_t row = integer(sequence, ChoiceInteger::reported);
  report_nothing(sequence);
  if (!is_row(row)) return;
  read_row(row, logits);
  const double total = log_sum_exp(logits);
  const auto log_probability = [&](int32_t i) {
    return static_cast<float>(logits[static_cast<size_t>(i)] - total);
  };
  if (token >= 0) store_log_probability(sequence, log_probability(token));
  if (rank_count() == 0) return;
  const ScratchArray<int32_t> order(std::ssize(logits));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  for (int64_t i = 0; i < rank_count(); ++i) {
    if (rank(i) < 0 || rank(i) >= std::ssize(logits)) continue;
    const int32_t likely = order[static_cast<size_t>(rank(i))];
    store_likely(sequence, i, likely, log_probability(likely));
  }
}

void ChoiceOperands::store_likely(int64_t sequence, int64_t i, int32_t token,
                                  float log_probability) const {
  const TensorView& to = c_.out(likely_tokens);
  to.as<int32_t>()[sequence * to.strides[0] + i * to.strides[1]] = token;
  const TensorView& probability = c_.out(likely_log_probabilities);
  probability.as<float>()[sequence * probability.strides[0] + i * probability.strides[1]] =
      log_probability;
}

}  // namespace lathe
