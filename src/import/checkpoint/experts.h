// SPDX-License-Identifier: MIT
// The experts of a layer: matrices of floats, of a quantiser or of GGUF blocks; one tensor of each
// expert or stacks of all.
#pragma once

#include <string>

#include "import/checkpoint/decoder_builder.h"

namespace lathe::checkpoint {

constexpr int64_t kMaxExperts = 4096;

struct ExpertsBlock {
  int64_t experts = 0;
  int64_t selected = 0;
  bool normalised = true;  // weights of the selected experts add up to 1
  bool sparse_mixer = false;
  std::string activation = "swiglu";  // or "geglu"
  double alpha = 1, beta = 0, limit = 0;
  Value* scales = nullptr;  // f32 [experts], factors of the results
};

// The experts of the tensors below `prefix`, "model.layers.0.mlp.experts.": gate_up_proj or
// gate_proj and up_proj, and down_proj. Where gate_up_proj has a bias, gates and values alternate,
// and matrices are [experts, inputs, outputs], as in gpt-oss.
Value* add_experts(DecoderBuilder& builder, const ExpertsBlock& block, const std::string& prefix,
                   Value* x, Value* router);

}  // namespace lathe::checkpoint
