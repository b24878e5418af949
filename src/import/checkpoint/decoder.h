// SPDX-License-Identifier: MIT
// A decoder of equal layers: normalisation, attention, normalisation, MLP. An architecture sets
// what differs; biases, norms of queries and keys, packed and tied weights follow from the
// checkpoint's tensors.
//
// Names, below "model." and "model.layers.N.": embed_tokens, embed_positions, input_layernorm,
// self_attn.{q_proj, k_proj, v_proj or qkv_proj, q_norm, k_norm, o_proj}, post_attention_layernorm,
// mlp.{gate_proj, up_proj or gate_up_proj, down_proj}, norm; lm_head. Experts: mlp.gate,
// mlp.experts.E.… or stacked mlp.experts.{gate_up_proj or gate_proj and up_proj, down_proj}.
// Attention to an encoder's output, between attention and MLP: cross_attn_layernorm,
// cross_attn.{q_proj, o_proj}.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "import/checkpoint/experts.h"

namespace lathe::checkpoint {

constexpr int64_t kMaxLayers = 4096;

// Where a layer's norms stand. pre: before attention and MLP. sandwich: before and after. post:
// after them, before the sum. parallel: one before both, which are added together.
enum class Residual : uint8_t { pre, sandwich, post, parallel };

enum class LayerKind : uint8_t { attention, conv, linear_attention };

struct LayerStyle {
  LayerKind kind = LayerKind::attention;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t window = 0;  // 0: all tokens
  bool rope = true;
  bool keys_are_values = false;  // before norms and RoPE; no v_proj
  double attention_scale = 0;    // 0: the decoder's
  std::string rope_key;          // of rope_parameters by layer type; empty: one for all
};

struct DecoderStyle {
  int64_t hidden = 0;
  int64_t stated_context = 0;  // positions by the configuration
  int64_t context = 0;         // those that tables of RoPE have
  int64_t widest_head = 0;     // elements
  std::vector<LayerStyle> layers;
  NormStyle norm;
  Residual residual = Residual::pre;
  std::string activation = "silu";
  double embedding_scale = 1;
  double residual_scale = 1;
  double logit_scale = 1;
  double attention_scale = 0;  // 0: 1 / sqrt(head size)
  double attention_softcap = 0;
  double logit_softcap = 0;
  double qkv_clip = 0;           // 0: none
  bool interleaved = false;      // RoPE of neighbouring pairs
  bool norm_after_rope = false;  // of queries and keys
  bool value_norm = false;       // without weights
  bool gated_attention = false;  // q_proj also returns gates
  bool transposed = false;       // weights are [inputs, outputs]
  bool positions = false;        // learned ones are added to the tokens
  bool tied = false;             // the head's weights are the embedding's
  ExpertsBlock experts;
  std::vector<double> rope_divisors;  // of a GGUF file
  bool gguf = false;  // recurrent decays and the order of value heads are as GGUF files have them
  int64_t conv_length = 0;  // layers of kind conv
  int64_t encoded = 0;      // positions of an encoder's output
  // Names of tensors that do not belong to the decoder, by prefix, or by suffix from ".".
  std::vector<std::string_view> ignored;
};

// Values that most architectures share, from the configuration.
DecoderStyle common_style(const Config& config, const Weights& weights);

std::unique_ptr<Program> build_decoder(const Config& config, const DecoderStyle& style,
                                       const Weights& weights, const std::string& name);

}  // namespace lathe::checkpoint
