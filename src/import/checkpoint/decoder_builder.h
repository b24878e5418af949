// SPDX-License-Identifier: MIT
// The blocks of decoders. Weights are named as in the checkpoint, without ".weight" and ".bias"; a
// bias is added where the checkpoint has one. Activations are f32 [batch, sequence, …].
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/checkpoint/config.h"
#include "import/checkpoint/rope.h"
#include "import/checkpoint/weights.h"
#include "ir/builder.h"
#include "ir/program.h"

namespace lathe::checkpoint {

enum class NormKind : uint8_t { rms, layer };

struct NormStyle {
  NormKind kind = NormKind::rms;
  double epsilon = 1e-6;
  bool plus_one = false;  // the scale is 1 + weight
};

struct AttentionBlock {
  int64_t layer = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t window = 0;  // 0: all tokens
  double scale = 0;    // 0: 1 / sqrt(head_size)
  double softcap = 0;
  const Rope* rope = nullptr;  // null: queries and keys have no positions, or are rotated
  bool interleaved = false;    // pairs of RoPE are neighbours
  Value* sinks = nullptr;      // f32 [heads]
};

// padded: input_ids and attention_mask [batch, sequence]. packed: input_ids [1, tokens] and
// token_bounds i32 [sequences + 1], the first token of each sequence, and the number of tokens.
// none: the caller adds other inputs.
enum class TokenInputs : uint8_t { padded, packed, none };

class DecoderBuilder {
 public:
  DecoderBuilder(const Weights& weights, std::string name,
                 TokenInputs inputs = TokenInputs::padded);

  Builder& ops() { return builder_; }
  const Weights& weights() const { return weights_; }

  const Dim& batch() const { return batch_; }
  Value* tokens() const { return tokens_; }
  Value* positions();  // i64 [batch, sequence]; becomes an input
  // Rows of NAME.weight, as f32.
  Value* embed(std::string_view name, Value* indices);
  // x times the transposed NAME.weight [outputs, inputs]; `transposed`: [inputs, outputs].
  Value* linear(Value* x, const std::string& name, bool transposed = false);
  // linear(); InvalidModel for another number of outputs.
  Value* linear_of(Value* x, const std::string& name, int64_t outputs);
  // f32 literal of a small tensor, with `add` added to each element.
  Value* vector(const std::string& name, double add = 0);
  // InvalidModel for another number of elements.
  Value* vector_of(const std::string& name, int64_t size, double add = 0);
  Value* norm(Value* x, const std::string& name, const NormStyle& style);
  // Normalises x + y, and sets x to the sum; y may be null.
  Value* add_norm(Value*& x, Value* y, const std::string& name, const NormStyle& style);
  // RMS normalisation of each head [batch, sequence, heads · size]; no scale with an empty name.
  Value* head_norm(Value* x, const std::string& name, int64_t size, const NormStyle& style);
  Value* rotate(Value* x, const Rope& rope, int64_t heads, bool interleaved);
  // Causal attention; appends keys and values to the layer's KV cache. Without a key, the query
  // holds queries, keys and values, in this order.
  Value* attention(Value* query, Value* key, Value* value, const AttentionBlock& block);
  // Attention to the inputs past_key_cross_N and past_value_cross_N, as an encoder computes them.
  // [batch, heads, positions, head_size].
  Value* cross_attention(Value* query, int64_t layer, int64_t heads, int64_t positions);
  // Attention of packed tokens, each to all tokens of its sequence.
  Value* packed_attention(Value* query, Value* key, Value* value, int64_t heads);
  Value* activate(Value* x, const std::string& activation);
  // f(gate) · up
  Value* glu(Value* gate, Value* up, const std::string& activation);
  // Causal depthwise convolution of [batch, sequence, channels] with a state of its last inputs.
  Value* causal_conv(Value* x, const std::string& name, int64_t layer, bool silu);
  // Linear attention with a recurrent state; operands as of the op linear_attention.
  Value* linear_attention(Value* query, Value* key, Value* value, Value* decay, Value* beta,
                          int64_t layer, int64_t heads, int64_t kv_heads, double scale);

  Value* add(Value* a, Value* b);
  Value* multiply(Value* a, Value* b);
  Value* scale(Value* x, double factor);  // x itself for 1
  Value* softcap(Value* x, double cap);   // cap · tanh(x / cap); x itself for 0
  // 0 keeps a size of x, -1 is the rest.
  Value* reshape(Value* x, const std::vector<int64_t>& sizes);
  // Elements [begin, end) along the last axis.
  Value* columns(Value* x, int64_t begin, int64_t end);
  Value* literal(Tensor tensor, const std::string& name);
  // The stored elements, in the file's memory; of another shape if there are dims.
  Value* stored_literal(const StoredTensor& stored, const std::string& name, const Dims& dims = {});

  // Blocks of a GGUF tensor as u8 [..., bytes], in the file's memory.
  Value* blocks_literal(const StoredTensor& stored, const std::string& name);

  Value* add_input(const std::string& name, std::vector<Dim> dims);  // f32
  void add_result(Value* value, std::string name);
  std::unique_ptr<Program> finish(Value* result, std::string name = "logits");

 private:
  Value* choose_table(const Tensor& shorter, const Tensor* longer, int64_t max_short,
                      const std::string& name);
  void find_lengths();

  struct PackedLiterals {
    Value* codes;   // u8 [rows, bytes]
    Value* scales;  // f16 or f32 [rows, groups]
    Value* zeros;   // f32 [rows, groups] or packed u8; null: the middle of the codes
    Value* order;   // i64 [columns], which input a column multiplies; null: its own
    int64_t bits;
    int64_t block;
  };
  // A quantised matrix as matmul_n_bits reads it; null for other tensors.
  const PackedLiterals* packed_literals(const StoredTensor& stored, const std::string& name);
  Value* order_literal(const Tensor& order, const std::string& name);
  // Elements of x along its last axis in this order.
  Value* reorder(Value* x, Value* order);

  struct Tables {
    Value* cos;
    Value* sin;
  };
  const Tables& tables_of(const Rope& rope);

  const Weights& weights_;
  std::unique_ptr<Program> program_;
  Builder builder_;
  Dim batch_, sequence_, past_;
  Value* tokens_ = nullptr;
  Value* mask_ = nullptr;
  Value* bounds_ = nullptr;
  Value* positions_ = nullptr;
  Value* key_lengths_ = nullptr;  // i32 [batch], of each sequence's last key
  Value* total_ = nullptr;        // i32 [1]
  std::map<const Rope*, Tables> tables_;
  std::map<std::string, Value*, std::less<>> literals_;
  std::map<std::string, std::optional<PackedLiterals>, std::less<>> packed_;
  std::map<std::string, Value*, std::less<>> orders_;  // by their bytes
  std::map<std::pair<Value*, Value*>, Value*> reordered_;
  std::vector<Value*> results_;
  std::vector<std::string> result_names_;
};

// The tensor's elements as f32, converted or dequantised.
Tensor float_tensor(const StoredTensor& stored, std::string_view name);
// InvalidModel for another shape.
Tensor float_tensor_of(const Weights& weights, const std::string& name, const Dims& dims);

}  // namespace lathe::checkpoint
