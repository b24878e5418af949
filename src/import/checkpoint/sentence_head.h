// SPDX-License-Identifier: MIT
// Dense layers behind the pooling of an encoder of texts.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/folder.h"
#include "ir/program.h"

namespace lathe::checkpoint {

struct DenseLayer {
  Folder folder;  // of model.safetensors with linear.weight, and linear.bias if there is one
  int64_t inputs = 0;
  int64_t outputs = 0;
  std::string activation;  // tanh, relu, gelu, silu; empty: none
};

// From pooled states f32 [texts, inputs] to embeddings f32 [texts, outputs].
std::unique_ptr<Program> import_sentence_head(std::span<const DenseLayer> layers);

}  // namespace lathe::checkpoint
