// SPDX-License-Identifier: MIT
// How a token axis passes through an instruction: the argument of an op's `tokens` function, and
// rules that several ops share. An instruction is token-wise if token t of each result depends on
// token t of the operands alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ir/program.h"

namespace lathe {

// The token axis of an instruction's results, or why it is not token-wise.
struct TokenAxis {
  std::optional<int> axis;
  std::string reason{};
};
TokenAxis not_token_wise(std::string reason);

// One instruction, at least one operand of which has a token axis.
class TokenStep {
 public:
  // `axes`: the values that have a token axis; `tokens`: the number of tokens.
  TokenStep(const Instruction& instruction, const std::map<const Value*, int>& axes,
            const Dim& tokens)
      : instruction_(instruction), axes_(axes), tokens_(tokens) {}

  const Instruction& instruction() const { return instruction_; }
  const Dim& tokens() const { return tokens_; }
  size_t count() const { return instruction_.operands().size(); }
  const Value* operand(size_t i) const {
    return i < count() ? instruction_.operands()[i] : nullptr;
  }
  std::optional<int> axis(size_t i) const {
    const auto at = axes_.find(operand(i));
    return operand(i) == nullptr || at == axes_.end() ? std::nullopt : std::optional(at->second);
  }
  int rank(size_t i) const { return operand(i)->type().rank(); }
  const std::vector<Dim>& dims(size_t i) const { return *operand(i)->type().dims; }
  int64_t integer(std::string_view name) const;
  bool boolean(std::string_view name) const;
  // An axis in [-rank, rank), normalised to [0, rank).
  int axis_attribute(std::string_view name, int rank) const;
  // Consecutive elements per token along an axis of this size; 0 if it has no tokens.
  Dim per_token(const Dim& extent) const;
  // True if each token of the operand is one element of its axis.
  bool single(size_t i) const { return dims(i)[static_cast<size_t>(*axis(i))] == tokens_; }
  // True if operands from `first` on have no token axis.
  bool fixed_from(size_t first) const;

 private:
  const Instruction& instruction_;
  const std::map<const Value*, int>& axes_;
  const Dim& tokens_;
};

// The rule of an instruction: by its formula, its index map or its op's `tokens`.
TokenAxis tokens_of(const TokenStep& s);

// Broadcast operands must have their token axes at one axis of the result.
TokenAxis elementwise_tokens(const TokenStep& s);
// The op mixes elements from axis `first` on: the token axis must be before it.
TokenAxis tokens_before(const TokenStep& s, int first);
TokenAxis tokens_before_last_axis(const TokenStep& s);
TokenAxis tokens_before_axis_attribute(const TokenStep& s);
// The op mixes elements along its attribute `axis`.
TokenAxis tokens_beside_axis_attribute(const TokenStep& s);
// The token axis is a batch axis of one or both matrices, or axis M of the first.
TokenAxis matmul_tokens(const TokenStep& s);
TokenAxis reduced_tokens(const TokenStep& s);
// Slices of data along attribute `axis` at indices.
TokenAxis gathered_tokens(const TokenStep& s, std::string_view axis);
// x [b, heads, tokens, size] or [b, tokens, columns]; positions with tokens last, or cos/sin caches
// per token [b, tokens, size].
TokenAxis rotary_tokens(const TokenStep& s);
TokenAxis expert_tokens(const TokenStep& s);
// Sequence operators: the token axis is the sequence axis of operands and results.
TokenAxis sequence_tokens(const TokenStep& s, int axis);

}  // namespace lathe
