// SPDX-License-Identifier: MIT
// One sequence's part of a step: its new tokens and the requested results.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "llm/model/token_inputs.h"
#include "llm/search/sampling_block.h"
#include "tensor/element_type.h"

namespace lathe::llm {

class Sequence;
using NamedTensors = std::map<std::string, Tensor>;

// Tokens of a request whose logits are returned, by index in the request.
class LogitPositions {
 public:
  LogitPositions() = default;  // the last token
  static LogitPositions all() { return {Kind::all, 0, 0, {}}; }
  static LogitPositions range(int64_t begin, int64_t count) {
    return {Kind::range, begin, count, {}};
  }
  // In this order; the indices are not copied.
  static LogitPositions list(std::span<const int64_t> indices) {
    return {Kind::list, 0, 0, indices};
  }

  // For a request of `tokens` tokens.
  int64_t count(int64_t tokens) const;
  int64_t at(int64_t index, int64_t tokens) const;

 private:
  enum class Kind : uint8_t { last, all, range, list };
  LogitPositions(Kind kind, int64_t begin, int64_t count, std::span<const int64_t> indices)
      : kind_(kind), begin_(begin), count_(count), indices_(indices) {}

  Kind kind_ = Kind::last;
  int64_t begin_ = 0;
  int64_t count_ = 0;
  std::span<const int64_t> indices_;
};

// All pointers must stay valid until the step returns.
struct StepRequest {
  Sequence* sequence = nullptr;
  // Token ids. Where `embedded` has an embedding: any number below 0, or an id for programs that
  // take both.
  std::span<const Token> tokens{};
  LogitPositions logits{};
  // Filled, unless null, with this sequence's part of each of the runner's outputs().
  NamedTensors* outputs = nullptr;
  // Embeddings in place of tokens, by index in the request, ascending.
  std::span<const EmbeddedTokens> embedded{};
  // Explicit position ids, [tokens] or [3, tokens] (time, height, width). Empty: consecutive from
  // the sequence's next_position().
  std::span<const int64_t> positions{};
  // Adapter id; 0: none. Others are Unsupported.
  int64_t adapter = 0;
  // Unless null, samples a token from the last of the requested logits into `chosen`.
  const search::SamplingBlock* sampling = nullptr;
  Token* chosen = nullptr;
};

// Position id of token `index` of a request, along an axis of [3, tokens].
int64_t position_of(const StepRequest& request, int64_t axis, int64_t index);

// Limits of a decoder's inputs.
struct TokenLimits {
  int64_t vocabulary = 0;
  int64_t context = 0;         // tokens; position ids are smaller
  int64_t position_axes = 0;   // 3, 1, or 0: no explicit position ids
  std::string no_positions{};  // why `position_axes` is 0
  bool ids = true;             // whether token ids are accepted
  int64_t hidden = 0;          // size of embeddings; 0: not accepted, -1: any
  std::vector<std::pair<std::string, Token>>
      media{};  // placeholder tokens of images, videos and audio
};
// InvalidArgument for inputs beyond the limits; Unsupported for adapters and for media tokens
// without embeddings.
void check_embeddings(const Embeddings& embeddings, const TokenLimits& limits);
void check_positions(std::span<const int64_t> positions, int64_t tokens, const TokenLimits& limits);
void check_request(const StepRequest& request, const TokenLimits& limits);

}  // namespace lathe::llm
