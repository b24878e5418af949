// SPDX-License-Identifier: MIT
// Operands and results of choose_tokens.
#pragma once

#include <cstdint>
#include <span>

#include "base/logit_edit.h"
#include "ops/operand_views.h"
#include "ops/support/token_choice.h"

namespace lathe {

// Columns of the parameters i64[sequences, 8] of a sequence.
enum class ChoiceInteger : uint8_t {
  row,     // of the logits
  sample,  // 0: the first of the largest logits
  top_k,   // 0: all
  seed,    // of Philox, with the sequence's number and the position
  sequence,
  position,
  mask,      // row of the masks; -1: all tokens
  reported,  // row of the logits whose log-probabilities are returned; -1: none
};
inline constexpr int64_t kChoiceIntegers = 8;
// Columns of the parameters f64[sequences, 6].
enum class ChoiceNumber : uint8_t {
  temperature,
  top_p,
  min_p,
  typical_p,
  epsilon_cutoff,
  eta_cutoff
};
inline constexpr int64_t kChoiceNumbers = 6;

// Whatever lies outside of its tensor has no effect: edits of tokens beyond the vocabulary, and
// sequences whose row or mask does not exist, which get token -1.
class ChoiceOperands {
 public:
  enum Operand : uint8_t {
    logits,
    integers,
    numbers,
    edit_bounds,
    edits,
    edit_values,
    ranks,
    masks
  };
  enum Result : uint8_t { tokens, log_probabilities, likely_tokens, likely_log_probabilities };

  explicit ChoiceOperands(const OperandViews& c) : c_(c) {}

  int64_t sequences() const { return c_.in(integers).dims[0]; }
  int64_t rows() const { return c_.in(logits).dims[0]; }
  int64_t vocabulary() const { return c_.in(logits).dims[1]; }
  int64_t rank_count() const { return c_.in(ranks).dims[0]; }

  int64_t integer(int64_t sequence, ChoiceInteger column) const {
    return at<int64_t>(c_.in(integers), sequence, static_cast<int64_t>(column));
  }
  double number(int64_t sequence, ChoiceNumber column) const {
    return at<double>(c_.in(numbers), sequence, static_cast<int64_t>(column));
  }
  int64_t rank(int64_t i) const {
    return c_.in(ranks).as<const int32_t>()[i * c_.in(ranks).strides[0]];
  }
  ChoiceParameters parameters(int64_t sequence) const;
  bool is_row(int64_t row) const { return row >= 0 && row < rows() && vocabulary() > 0; }
  // Whether the sequence has edits or a mask.
  bool changes(int64_t sequence) const;
  // The row's elements if they are contiguous f32, else null.
  const float* row_in_place(int64_t row) const;
  // Its elements as f32; NaN becomes -infinity.
  void read_row(int64_t row, std::span<float> to) const;
  // Edits, then excludes tokens outside of the mask. False if the mask does not exist.
  bool change(int64_t sequence, std::span<float> logits) const;
  // A number in [0, 1).
  double uniform(int64_t sequence) const;

  void store(Result result, int64_t sequence, int32_t value) const {
    const TensorView& to = c_.out(result);
    to.as<int32_t>()[sequence * to.strides[0]] = value;
  }
  void store_log_probability(int64_t sequence, float value) const {
    const TensorView& to = c_.out(log_probabilities);
    to.as<float>()[sequence * to.strides[0]] = value;
  }
  // Stores log-probabilities of the sequence, by a full sort; changes `logits`, of the vocabulary.
  void report(int64_t sequence, int32_t token, std::span<float> logits) const;
  void report_nothing(int64_t sequence) const;
  void store_likely(int64_t sequence, int64_t i, int32_t token, float log_probability) const;

 private:
  template <class T>
  static const T& at(const TensorView& view, int64_t row, int64_t column) {
    return view.as<const T>()[row * view.strides[0] + column * view.strides[1]];
  }

  const OperandViews& c_;
};

}  // namespace lathe
