// SPDX-License-Identifier: MIT
#include "import/checkpoint/encoder.h"

#include "base/error.h"
#include "base/in_file.h"
#include "import/checkpoint/decoder_builder.h"
#include "ir/ops.h"

namespace lathe::checkpoint {
namespace {

constexpr int64_t kMaxEncoderLayers = 4096;
constexpr const char* kPositionRows = "embeddings.position_embeddings";
constexpr const char* kWordRows = "embeddings.word_embeddings";

class EncoderWriter {
 public:
  explicit EncoderWriter(const Checkpoint& checkpoint)
      : config_(checkpoint.config),
        weights_(checkpoint.weights),
        sizes_(encoder_sizes(checkpoint)),
        norm_{.kind = NormKind::layer, .epsilon = config_.above_zero("layer_norm_eps", 1e-12)},
        activation_(config_.text("hidden_act", config_.text("activation", "gelu"))),
        b_(weights_, checkpoint.place, TokenInputs::packed) {}

  std::unique_ptr<Program> write() {
    Value* x = b_.embed(kWordRows, b_.tokens());
    check(x->type().dims->back() == Dim(sizes_.hidden), ErrorKind::invalid_model,
          "tensor '{}.weight' has {} columns, but the hidden size is {}", kWordRows,
          x->type().dims->back().to_string(), sizes_.hidden);
    Value* y = b_.embed(kPositionRows, b_.positions());
    if (weights_.has("embeddings.token_type_embeddings.weight")) y = b_.add(y, first_type());
    x = b_.add_norm(x, y, "embeddings.LayerNorm", norm_);
    for (int64_t i = 0; i < sizes_.layers; ++i) x = layer(i, x);
    weights_.check_used({"pooler.", "cls.", "classifier.", "lm_head.", "embeddings.position_ids",
                         "pre_classifier.", "vocab_", "qa_outputs."},
                        config_.text("model_type"));
    return b_.finish(x, "last_hidden_state");
  }

 private:
  // A single text has token type 0 throughout.
  Value* first_type() {
    constexpr const char* kName = "embeddings.token_type_embeddings.weight";
    const Tensor types = float_tensor(weights_.get(kName), kName);
    check(types.rank() == 2 && types.dims()[0] > 0 && types.dims()[1] == sizes_.hidden,
          ErrorKind::invalid_model, "tensor '{}' has shape [{}], expected rows of {}", kName,
          fmt::join(types.dims(), ", "), sizes_.hidden);
    Tensor first(ElementType::f32, {sizes_.hidden});
    std::copy_n(types.as<float>(), sizes_.hidden, first.as<float>());
    return b_.literal(std::move(first), kName);
  }

  Value* layer(int64_t i, Value* x) {
    const std::string p = fmt::format("encoder.layer.{}.", i);
    const std::string a = p + "attention.";
    const auto heads = [&](const char* name) { return b_.linear_of(x, a + name, sizes_.hidden); };
    Value* y = b_.packed_attention(heads("self.query"), heads("self.key"), heads("self.value"),
                                   sizes_.heads);
    y = b_.linear(y, a + "output.dense");
    x = b_.add_norm(x, y, a + "output.LayerNorm", norm_);
    y = b_.activate(b_.linear(x, p + "intermediate.dense"), activation_);
    y = b_.linear(y, p + "output.dense");
    return b_.add_norm(x, y, p + "output.LayerNorm", norm_);
  }

  const Config& config_;
  const Weights& weights_;
  const EncoderSizes sizes_;
  const NormStyle norm_;
  const std::string activation_;
  DecoderBuilder b_;
};

}  // namespace

EncoderSizes encoder_sizes(const Checkpoint& checkpoint) {
  const Config& config = checkpoint.config;
  check(checkpoint.architecture->encoder, ErrorKind::invalid_argument,
        "'{}' has a model of the architecture '{}', a decoder; encoders of texts are {}",
        escape(checkpoint.place), checkpoint.architecture->type, fmt::join(encoder_types(), ", "));
  const auto size = [&](const char* name, const char* other) {
    return config.has(name) ? config.integer(name) : config.integer(other);
  };
  EncoderSizes s;
  s.hidden = size("hidden_size", "dim");
  s.layers = size("num_hidden_layers", "n_layers");
  s.heads = size("num_attention_heads", "n_heads");
  check(s.hidden > 0 && s.layers > 0 && s.layers <= kMaxEncoderLayers && s.heads > 0 &&
            s.hidden % s.heads == 0,
        ErrorKind::invalid_model,
        "{} layers of {} heads and hidden size {}: expected positive ones, at most {} layers, and "
        "heads of one size",
        s.layers, s.heads, s.hidden, kMaxEncoderLayers);
  const std::string positions = config.text("position_embedding_type", "absolute");
  check(positions == "absolute" && !config.flag("is_decoder", false), ErrorKind::unsupported,
        "'position_embedding_type' is '{}' and 'is_decoder' is {}, expected absolute and false",
        escape(positions), config.flag("is_decoder", false));
  // RoBERTa counts from behind the padding; GGUF files omit the rows before.
  if (checkpoint.architecture->type != "bert" && checkpoint.architecture->type != "distilbert" &&
      !config.flag("gguf", false)) {
    s.first_position = config.integer("pad_token_id", 1) + 1;
  }
  const std::string name = fmt::format("{}.weight", kPositionRows);
  const StoredTensor& rows = checkpoint.weights.get(name);
  s.tokens = rows.rank() == 2 ? rows.dims[0] - s.first_position : 0;
  check(s.tokens > 0, ErrorKind::invalid_model,
        "tensor '{}' has shape [{}], expected more than {} rows", name, fmt::join(rows.dims, ", "),
        s.first_position);
  const StoredTensor* words = checkpoint.weights.find(fmt::format("{}.weight", kWordRows));
  if (words != nullptr && words->rank() == 2) s.vocabulary = words->dims[0];
  return s;
}

std::unique_ptr<Program> import_encoder(const Checkpoint& checkpoint) {
  return in_file(checkpoint.place, [&] { return EncoderWriter(checkpoint).write(); });
}

}  // namespace lathe::checkpoint
