// SPDX-License-Identifier: MIT
#include "import/checkpoint/sentence_head.h"

#include "base/error.h"
#include "import/checkpoint/decoder_builder.h"
#include "ir/ops.h"

namespace lathe::checkpoint {
namespace {

Value* activated(Builder& b, Value* x, const std::string& f) {
  if (f == "tanh") return b(lathe::ops::tanh, {x});
  if (f == "relu") return b(lathe::ops::relu, {x});
  if (f == "gelu") return b(lathe::ops::gelu, {x});
  return f == "silu" ? b(lathe::ops::swish, {x}) : x;
}

}  // namespace

std::unique_ptr<Program> import_sentence_head(std::span<const DenseLayer> layers) {
  auto program = std::make_unique<Program>();
  program->name = layers.front().folder.place();
  const Dim texts(program->add_symbol("texts", SymbolKind::bound, {0, kUnbounded}));
  Builder b(program->main());
  Value* x = program->main().add_parameter(
      Type::tensor(ElementType::f32, {texts, layers.front().inputs}), "pooled");
  for (const DenseLayer& layer : layers) {
    try {
      const Weights weights = Weights::open_safetensors(layer.folder);
      check(x->type().dims->back() == Dim(layer.inputs), ErrorKind::invalid_model,
            "'in_features' is {}, expected {}", layer.inputs, x->type().dims->back().to_string());
      const auto literal = [&](const char* name, const Dims& dims) {
        return b.literal(float_tensor_of(weights, name, dims), name);
      };
      Value* w = literal("linear.weight", {layer.outputs, layer.inputs});
      x = b(lathe::ops::matmul, {x, b.transpose(w, {1, 0})});
      if (weights.has("linear.bias")) {
        x = b(lathe::ops::add, {x, literal("linear.bias", {layer.outputs})});
      }
    } catch (Error& error) {
      error.note(fmt::format("in {}", escape(layer.folder.place())));
      throw;
    }
    x = activated(b, x, layer.activation);
  }
  program->main().set_results({x}, {"embeddings"});
  return program;
}

}  // namespace lathe::checkpoint
