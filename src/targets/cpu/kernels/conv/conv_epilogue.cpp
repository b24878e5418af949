// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/conv_epilogue.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lathe::cpu {
namespace {

void advance(Operand& operand, int64_t elements) {
  if (operand.data == nullptr) return;
  operand.data = static_cast<const std::byte*>(operand.data) + bytes_for(operand.type, elements);
}

}  // namespace

IntegerTerms integer_terms(const ConvCall& call, int64_t outputs, int64_t depth, int shift,
                           const int32_t* column_sums, const int32_t* weight_zero) {
  IntegerTerms terms;
  terms.column_compensation.resize(static_cast<size_t>(outputs));
  terms.negated_column_compensation.resize(static_cast<size_t>(outputs));
  const auto x_zero = static_cast<uint32_t>(call.x_zero);
  for (int64_t i = 0; i < outputs; ++i) {
    // Modulo 2^32, like the accumulators.
    uint32_t add = call.integer_bias == nullptr ? 0 : static_cast<uint32_t>(call.integer_bias[i]);
    add -= (x_zero + static_cast<uint32_t>(shift)) * static_cast<uint32_t>(column_sums[i]);
    if (weight_zero != nullptr)
      add += static_cast<uint32_t>(depth) * x_zero * static_cast<uint32_t>(weight_zero[i]);
    terms.column_compensation[static_cast<size_t>(i)] = static_cast<int32_t>(add);
    terms.negated_column_compensation[static_cast<size_t>(i)] = static_cast<int32_t>(0 - add);
    terms.adds = terms.adds || add != 0;
  }
  for (int64_t i = 0; weight_zero != nullptr && i < outputs; ++i) {
    if (weight_zero[i] != 0) terms.weight_zero = weight_zero;
  }
  return terms;
}

ConvEpilogue::ConvEpilogue(const ConvCall& call, const IntegerTerms* terms, int64_t n,
                           bool channels_first)
    : original_(call.epilogue), channels_first_(channels_first), terms_(terms) {
  const auto count = std::ssize(original_.steps);
  if (count > 0) image_ = ScratchArray<EpilogueStep>(count);
  if (count > 0) steps_ = ScratchArray<EpilogueStep>(count);
  std::ranges::copy(original_.steps, image_.begin());
  for (size_t i = 0; i < image_.size(); ++i) {
    Operand& operand = image_[i].operand;
    if (i < call.operand_images.size()) advance(operand, n * call.operand_images[i]);
    if (channels_first) std::swap(operand.row_stride, operand.column_stride);
  }
  std::copy(image_.begin(), image_.end(), steps_.begin());
  epilogue_.steps = {steps_.begin(), steps_.size()};
  epilogue_.code = original_.code;
  epilogue_.out = original_.out;
  epilogue_.out_zero = original_.out_zero;
  if (channels_first) std::swap(epilogue_.out_zero.row_stride, epilogue_.out_zero.column_stride);
  if (terms != nullptr && channels_first) {
    outer_[0] = {terms->negated_column_compensation.data(), nullptr};
    epilogue_.outer = std::span(outer_).first(1);
  } else if (terms != nullptr && terms->adds) {
    epilogue_.column_compensation = terms->column_compensation.data();
  }
  simplify_again();
}

void ConvEpilogue::simplify_again() {
  epilogue_.simple = simplify(epilogue_, simple_) ? &simple_ : nullptr;
}

void ConvEpilogue::place(int64_t first, int64_t stride) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    Operand& operand = steps_[i].operand;
    operand = image_[i].operand;
    int64_t& along = channels_first_ ? operand.column_stride : operand.row_stride;
    advance(operand, first * along);
    along *= stride;
  }
  simplify_again();
}

void ConvEpilogue::window_sums(const int32_t* sums) {
  if (terms_ == nullptr || terms_->weight_zero == nullptr) return;
  const size_t at = channels_first_ ? 1 : 0;
  outer_[at] = channels_first_ ? OuterCompensation{terms_->weight_zero, sums}
                               : OuterCompensation{sums, terms_->weight_zero};
  epilogue_.outer = std::span(outer_).first(at + 1);
  simplify_again();
}

}  // namespace lathe::cpu
