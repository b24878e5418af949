// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace lathe {

enum class WeightBits : uint8_t { none, int8, int4 };  // none: as the file has them

struct WeightQuantisation {
  WeightBits bits = WeightBits::none;
  WeightBits head = WeightBits::int8;  // of the product that makes the logits
  int64_t block = 32;                  // inputs that share a scale: 32, 64 or 128
  bool symmetric = false;              // int4 without minimums
};
// "int4", or with settings: "int4,block=64,symmetric,head=int4". InvalidArgument, with `origin`.
WeightQuantisation parse_weight_quantisation(std::string_view text, std::string_view origin);

// Quantises the constant float weights of a language model's matrix products; `logits` is the
// result that the head makes. Routers and matrices with few outputs stay. The weights are quantised
// when the plan is made. Returns the number of matrices.
int64_t quantize_weights(Program& program, const WeightQuantisation& how, std::string_view logits);
// InvalidArgument if a model from `place` has no such matrices, but `how` quantises.
void check_quantised(int64_t matrices, const WeightQuantisation& how, std::string_view place);

}  // namespace lathe
