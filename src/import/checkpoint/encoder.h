// SPDX-License-Identifier: MIT
// An encoder of texts: layers of attention to all tokens, and MLPs, each followed by a norm.
//
// Names: embeddings.{word_embeddings, position_embeddings, token_type_embeddings, LayerNorm};
// encoder.layer.N.attention.{self.{query, key, value}, output.{dense, LayerNorm}},
// encoder.layer.N.{intermediate.dense, output.{dense, LayerNorm}}.
#pragma once

#include <memory>
#include <string>

#include "import/checkpoint/checkpoint.h"
#include "ir/program.h"

namespace lathe::checkpoint {

struct EncoderSizes {
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t first_position = 0;  // of a sequence's first token
  int64_t tokens = 0;          // at most, of a sequence
  int64_t vocabulary = 0;      // rows of the embeddings of words
};
EncoderSizes encoder_sizes(const Checkpoint& checkpoint);

// Inputs: input_ids and position_ids, i64 [1, tokens]; token_bounds, i32 [sequences + 1], the first
// token of each sequence, and the number of tokens. Result: last_hidden_state, f32
// [1, tokens, hidden]. InvalidArgument for a checkpoint of a decoder.
std::unique_ptr<Program> import_encoder(const Checkpoint& checkpoint);

}  // namespace lathe::checkpoint
