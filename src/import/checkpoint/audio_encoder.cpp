// SPDX-License-Identifier: MIT
#include "import/checkpoint/audio_encoder.h"

#include "base/error.h"
#include "base/in_file.h"
#include "import/checkpoint/decoder_builder.h"
#include "ir/ops.h"

namespace lathe::checkpoint {
namespace {

class AudioEncoderWriter {
 public:
  explicit AudioEncoderWriter(const Checkpoint& checkpoint)
      : config_(checkpoint.config),
        style_(common_style(checkpoint.config, checkpoint.weights)),
        weights_(checkpoint.weights),
        heads_(config_.integer("encoder_attention_heads")),
        b_(weights_, checkpoint.place, TokenInputs::none) {
    checkpoint.architecture->adapt(config_, weights_, style_);
  }

  std::unique_ptr<Program> write() {
    const int64_t layers = config_.integer("encoder_layers");
    check(layers > 0 && layers <= kMaxLayers && heads_ > 0 && style_.hidden % heads_ == 0,
          ErrorKind::invalid_model,
          "'encoder_layers' is {} and 'encoder_attention_heads' {}, expected 1 to {} layers and "
          "heads that divide the hidden size, {}",
          layers, heads_, kMaxLayers, style_.hidden);
    // The second convolution halves the frames.
    const std::vector<Dim> dims = {b_.batch(), config_.integer("num_mel_bins"), 2 * style_.encoded};
    Value* x = b_.add_input("audio_features", dims);
    x = convolve(convolve(x, "model.encoder.conv1", 1), "model.encoder.conv2", 2);
    x = b_.add(b_.ops().transpose(x, {0, 2, 1}), positions());
    Value* pending = nullptr;
    for (int64_t i = 0; i < layers; ++i) {
      const std::string p = fmt::format("model.encoder.layers.{}.", i);
      Value* h = b_.add_norm(x, pending, p + "input_layernorm", style_.norm);
      Value* y = attention(p + "self_attn.", h);
      h = b_.add_norm(x, y, p + "post_attention_layernorm", style_.norm);
      y = b_.activate(b_.linear(h, p + "mlp.up_proj"), style_.activation);
      pending = b_.linear(y, p + "mlp.down_proj");
    }
    x = b_.add_norm(x, pending, "model.encoder.layer_norm", style_.norm);
    for (size_t i = 0; i < style_.layers.size(); ++i) add_cross(i, x);
    weights_.check_used({"model.layers.", "model.norm.", "model.embed_", "lm_head."},
                        config_.text("model_type"));
    return b_.finish(x, "hidden_states");
  }

 private:
  // Weights [outputs, inputs, 3].
  Value* convolve(Value* x, const std::string& name, int64_t stride) {
    const StoredTensor& stored = weights_.get(name + ".weight");
    const Dim& inputs = (*x->type().dims)[1];
    check(stored.rank() == 3 && stored.dims[0] == style_.hidden && inputs == Dim(stored.dims[1]) &&
              stored.dims[2] == 3,
          ErrorKind::invalid_model, "tensor '{}.weight' has shape [{}], expected [{}, {}, 3]", name,
          fmt::join(stored.dims, ", "), style_.hidden, inputs.to_string());
    Value* weight = b_.literal(float_tensor(stored, name), name + ".weight");
    const Attributes window = {{"strides", Integers{stride}}, {"pads", Integers{1, 1}}};
    Value* y = b_.ops()(ops::conv, {x, weight, b_.vector(name + ".bias")}, window);
    return b_.activate(y, "gelu");
  }

  Value* positions() {
    constexpr const char* kName = "model.encoder.embed_positions.weight";
    return b_.literal(float_tensor_of(weights_, kName, {style_.encoded, style_.hidden}), kName);
  }

  Value* attention(const std::string& p, Value* h) {
    std::vector<Value*> operands;
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
      operands.push_back(b_.linear_of(h, p + part, style_.hidden));
    }
    Value* y = b_.ops()(ops::multi_head_attention, operands, {{"num_heads", heads_}});
    return b_.linear(y, p + "o_proj");
  }

  // Keys and values of a layer's cross-attention, by heads.
  void add_cross(size_t i, Value* x) {
    const LayerStyle& layer = style_.layers[i];
    for (const char* part : {"key", "value"}) {
      const std::string name = fmt::format("model.layers.{}.cross_attn.{}_proj", i, part[0]);
      Value* y = b_.linear_of(x, name, layer.heads * layer.head_size);
      y = b_.reshape(y, {0, style_.encoded, layer.heads, layer.head_size});
      b_.add_result(b_.ops().transpose(y, {0, 2, 1, 3}),
                    fmt::format("present_{}_cross_{}", part, i));
    }
  }

  const Config& config_;
  DecoderStyle style_;
  const Weights& weights_;
  const int64_t heads_;
  DecoderBuilder b_;
};

}  // namespace

std::unique_ptr<Program> import_audio_encoder(const Checkpoint& checkpoint) {
  check(checkpoint.architecture->speech, ErrorKind::invalid_argument,
        "'{}' has a model of the architecture '{}', which has no audio encoder",
        escape(checkpoint.place), checkpoint.architecture->type);
  return in_file(checkpoint.place, [&] { return AudioEncoderWriter(checkpoint).write(); });
}

}  // namespace lathe::checkpoint
