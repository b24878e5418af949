// SPDX-License-Identifier: MIT
#include "llm/model/step_request.h"

#include <algorithm>

#include "base/error.h"
#include "llm/model/sequence.h"

namespace lathe::llm {

int64_t LogitPositions::count(int64_t tokens) const {
  switch (kind_) {
    case Kind::last:
      return 1;
    case Kind::all:
      return tokens;
    case Kind::range:
      return count_;
    case Kind::list:
      return std::ssize(indices_);
  }
  return 0;
}

int64_t LogitPositions::at(int64_t index, int64_t tokens) const {
  if (kind_ == Kind::last) return tokens - 1;
  return kind_ == Kind::list ? indices_[static_cast<size_t>(index)] : begin_ + index;
}

int64_t position_of(const StepRequest& request, int64_t axis, int64_t index) {
  if (request.positions.empty()) return request.sequence->next_position() + index;
  const auto tokens = std::ssize(request.tokens);
  const bool each = std::ssize(request.positions) > tokens;
  return request.positions[static_cast<size_t>((each ? axis * tokens : 0) + index)];
}

void check_embeddings(const Embeddings& embeddings, const TokenLimits& limits) {
  const Tensor& values = embeddings.values;
  check(limits.hidden != 0, ErrorKind::invalid_argument,
        "embeddings are {}, but the model accepts token ids only",
        to_string(values.type(), values.dims()));
  const bool floats = values.type() == ElementType::f32 || values.type() == ElementType::f16 ||
                      values.type() == ElementType::bf16 || values.type() == ElementType::f64;
  check(floats && values.rank() == 2 && values.dims()[0] > 0 && values.dims()[1] > 0 &&
            (limits.hidden < 0 || values.dims()[1] == limits.hidden),
        ErrorKind::invalid_argument, "embeddings are {}, expected floats [tokens, {}]",
        to_string(values.type(), values.dims()),
        limits.hidden < 0 ? "hidden" : std::to_string(limits.hidden));
}

void check_positions(std::span<const int64_t> positions, int64_t tokens,
                     const TokenLimits& limits) {
  check(limits.position_axes > 0, ErrorKind::invalid_argument,
        "{} tokens have explicit position ids, but the model accepts none: {}", tokens,
        limits.no_positions);
  const auto given = std::ssize(positions);
  check(given == tokens || given == tokens * limits.position_axes, ErrorKind::invalid_argument,
        "{} tokens have {} position ids, expected one each{}", tokens, given,
        limits.position_axes == 3 ? fmt::format(", or [3, {}]", tokens) : "");
  for (const int64_t position : positions) {
    check(position >= 0 && position < limits.context, ErrorKind::invalid_argument,
          "position id {} lies outside the context of {}", position, limits.context);
  }
}

namespace {

void check_embedded(const StepRequest& request, const TokenLimits& limits) {
  const auto tokens = std::ssize(request.tokens);
  int64_t end = 0;
  for (const EmbeddedTokens& own : request.embedded) {
    check_embeddings(own.embeddings, limits);
    check(own.begin >= end && own.end() <= tokens, ErrorKind::invalid_argument,
          "embeddings cover tokens {} to {} of {}, the previous ones end at {}", own.begin,
          own.end(), tokens, end);
    end = own.end();
  }
}

void check_tokens(const StepRequest& request, const TokenLimits& limits) {
  const auto* own = request.embedded.data();
  const auto* last = own + request.embedded.size();
  for (int64_t i = 0; i < std::ssize(request.tokens); ++i) {
    const Token token = request.tokens[static_cast<size_t>(i)];
    while (own != last && own->end() <= i) ++own;
    const bool embedded = own != last && own->begin <= i;
    if (embedded && token < 0) continue;
    check(token >= 0 && token < limits.vocabulary, ErrorKind::invalid_argument,
          "token {} lies outside the vocabulary of {}", token, limits.vocabulary);
    if (embedded) continue;
    check(limits.ids, ErrorKind::invalid_argument,
          "input {} is token id {}: the model accepts embeddings only, and its folder has no "
          "embedding program",
          i, token);
    for (const auto& [name, id] : limits.media) {
      check(token != id, ErrorKind::unsupported,
            "token {} is the model's '{}': images, videos and audio are supported only as "
            "embeddings",
            token, name);
    }
  }
}

// Implicit position ids continue after the previous tokens.
void check_room(const StepRequest& request, const TokenLimits& limits) {
  const auto tokens = std::ssize(request.tokens);
  const int64_t next = request.sequence->next_position();
  check(next + tokens <= limits.context, ErrorKind::invalid_argument,
        "{} tokens from position {} on exceed the context of {}", tokens, next, limits.context);
}

void check_logits(const StepRequest& request) {
  const auto tokens = std::ssize(request.tokens);
  const int64_t requested = request.logits.count(tokens);
  check(requested >= 0, ErrorKind::invalid_argument, "the logits of {} tokens are requested",
        requested);
  for (int64_t i = 0; i < requested; ++i) {
    const int64_t index = request.logits.at(i, tokens);
    check(index >= 0 && index < tokens, ErrorKind::invalid_argument,
          "the logits of token {} of {} are requested", index, tokens);
  }
  if (request.sampling == nullptr) return;
  check(requested > 0 && request.chosen != nullptr, ErrorKind::invalid_argument,
        "sampling needs logits and an output token: {} logits are requested{}", requested,
        request.chosen == nullptr ? ", and 'chosen' is NULL" : "");
}

}  // namespace

void check_request(const StepRequest& request, const TokenLimits& limits) {
  const int64_t past = request.sequence->length();
  const auto tokens = std::ssize(request.tokens);
  check(tokens > 0, ErrorKind::invalid_argument,
        "a sequence of {} tokens has {} new tokens in a step", past, tokens);
  check(past + tokens <= limits.context, ErrorKind::invalid_argument,
        "{} tokens exceed the context of {}", past + tokens, limits.context);
  check(request.adapter == 0, ErrorKind::unsupported,
        "adapter {} is requested, but adapters are not supported", request.adapter);
  check_embedded(request, limits);
  check_tokens(request, limits);
  if (request.positions.empty()) {
    check_room(request, limits);
  } else {
    check_positions(request.positions, tokens, limits);
  }
  check_logits(request);
  if (request.sampling != nullptr) check_block(*request.sampling, limits.vocabulary);
}

}  // namespace lathe::llm
