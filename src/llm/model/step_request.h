// SPDX-License-Identifier: MIT
// One sequence's share of a step: its new rows, and what is wanted of them.
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

// Those of a request's rows whose logits are wanted, counted from its first.
class LogitPositions {
 public:
  LogitPositions() = default;  // the last row's
  static LogitPositions all() { return {Kind::all, 0, 0, {}}; }
  static LogitPositions range(int64_t begin, int64_t count) {
    return {Kind::range, begin, count, {}};
  }
  // In this order; not copied.
  static LogitPositions list(std::span<const int64_t> rows) { return {Kind::list, 0, 0, rows}; }

  // Of a request with so many rows.
  int64_t count(int64_t rows) const;
  int64_t at(int64_t index, int64_t rows) const;

 private:
  enum class Kind : uint8_t { last, all, range, list };
  LogitPositions(Kind kind, int64_t begin, int64_t count, std::span<const int64_t> rows)
      : kind_(kind), begin_(begin), count_(count), rows_(rows) {}

  Kind kind_ = Kind::last;
  int64_t begin_ = 0;
  int64_t count_ = 0;
  std::span<const int64_t> rows_;
};

// Whatever is pointed to outlives the step.
struct StepRequest {
  Sequence* sequence = nullptr;
  // One for each row: an id, or, where `embedded` gives the row, any number below 0 (an id serves
  // programs that take both).
  std::span<const Token> tokens{};
  LogitPositions logits{};
  // Filled, if given, with the runner's outputs(): this sequence's rows of each.
  NamedTensors* outputs = nullptr;
  // Rows [rows, hidden] instead of tokens, counted from the request's first, ascending.
  std::span<const EmbeddedTokens> embedded{};
  // Where the rows stand, [rows] or [3, rows] (time, height, width); empty: one behind the other,
  // on from the sequence's next_position().
  std::span<const int64_t> positions{};
  // Which adapter's weights serve the rows; 0: none. Others are Unsupported.
  int64_t adapter = 0;
  // If given, a token is chosen by it from the last of the wanted rows and goes to `chosen`.
  const search::SamplingBlock* sampling = nullptr;
  Token* chosen = nullptr;
};

// Where a request's row stands, along an axis of [3, rows].
int64_t position_of(const StepRequest& request, int64_t axis, int64_t row);

// What a decoder takes.
struct TokenLimits {
  int64_t vocabulary = 0;
  int64_t context = 0;         // rows, and positions
  int64_t position_axes = 0;   // 3, 1, or 0: rows stand where the program has them
  std::string no_positions{};  // then: why
  bool ids = true;             // rows may be tokens
  int64_t hidden = 0;          // of embeddings; 0: it takes none, -1: any
  std::vector<std::pair<std::string, Token>> media{};  // tokens that stand for images and the like
};
// InvalidArgument for what contradicts itself or the limits; Unsupported for adapters and for
// tokens of media without embeddings.
void check_embeddings(const Embeddings& embeddings, const TokenLimits& limits);
void check_positions(std::span<const int64_t> positions, int64_t rows, const TokenLimits& limits);
void check_request(const StepRequest& request, const TokenLimits& limits);

}  // namespace lathe::llm
