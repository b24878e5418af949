// SPDX-License-Identifier: MIT
// Whisper: an encoder of audio and a decoder that attends to its output.
#include "base/error.h"
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 20;

void adapt_whisper(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = 1e-5};
  s.activation = config.text("activation_function", "gelu");
  s.positions = true;
  s.encoded = config.integer("max_source_positions", 1500);
  check(s.encoded > 0 && s.encoded <= kMaxPositions, ErrorKind::invalid_model,
        "'max_source_positions' is {}, expected 1 to {}", s.encoded, kMaxPositions);
  for (LayerStyle& layer : s.layers) layer.rope = false;
  s.ignored.insert(s.ignored.end(),
                   {"model.encoder.", ".cross_attn.k_proj.weight", ".cross_attn.v_proj.weight",
                    ".cross_attn.k_proj.bias", ".cross_attn.v_proj.bias"});
}

const RegisterArchitecture kWhisper{
    {.type = "whisper",
     .class_name = "WhisperForConditionalGeneration",
     .renames = {{"model.decoder.", "model."},
                 {"self_attn_layer_norm", "input_layernorm"},
                 {"encoder_attn_layer_norm", "cross_attn_layernorm"},
                 {"encoder_attn.", "cross_attn."},
                 {"final_layer_norm", "post_attention_layernorm"},
                 {"attn.out_proj", "attn.o_proj"},
                 {".fc1.", ".mlp.up_proj."},
                 {".fc2.", ".mlp.down_proj."},
                 {"model.layer_norm", "model.norm"},
                 {"proj_out.", "lm_head."}},
     .adapt = adapt_whisper,
     .defaults = R"({"hidden_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6,
    "max_position_embeddings": 448, "encoder_layers": 4, "encoder_attention_heads": 6,
    "num_mel_bins": 80, "max_source_positions": 1500, "activation_function": "gelu",
    "tie_word_embeddings": true})",
     .speech = true}};

}  // namespace
}  // namespace lathe::checkpoint
