// SPDX-License-Identifier: MIT
#include "llm/model/step_request.h"

#include <algorithm>

#include "base/error.h"
#include "llm/model/sequence.h"

namespace lathe::llm {

int64_t LogitPositions::count(int64_t rows) const {
  switch (kind_) {
    case Kind::last:
      return 1;
    case Kind::all:
      return rows;
    case Kind::range:
      return count_;
    case Kind::list:
      return std::ssize(rows_);
  }
  return 0;
}

int64_t LogitPositions::at(int64_t index, int64_t rows) const {
  if (kind_ == Kind::last) return rows - 1;
  return kind_ == Kind::list ? rows_[static_cast<size_t>(index)] : begin_ + index;
}

int64_t position_of(const StepRequest& request, int64_t axis, int64_t row) {
  if (request.positions.empty()) return request.sequence->next_position() + row;
  const auto rows = std::ssize(request.tokens);
  const bool each = std::ssize(request.positions) > rows;
  return request.positions[static_cast<size_t>((each ? axis * rows : 0) + row)];
}

void check_embeddings(const Embeddings& embeddings, const TokenLimits& limits) {
  const Tensor& rows = embeddings.rows;
  check(limits.hidden != 0, ErrorKind::invalid_argument,
        "embeddings are {}, and the model takes tokens only", to_string(rows.type(), rows.dims()));
  const bool floats = rows.type() == ElementType::f32 || rows.type() == ElementType::f16 ||
                      rows.type() == ElementType::bf16 || rows.type() == ElementType::f64;
  check(floats && rows.rank() == 2 && rows.dims()[0] > 0 && rows.dims()[1] > 0 &&
            (limits.hidden < 0 || rows.dims()[1] == limits.hidden),
        ErrorKind::invalid_argument, "embeddings are {}, expected floats [rows, {}]",
        to_string(rows.type(), rows.dims()),
        limits.hidden < 0 ? "hidden" : std::to_string(limits.hidden));
}

void check_positions(std::span<const int64_t> positions, int64_t rows, const TokenLimits& limits) {
  check(limits.position_axes > 0, ErrorKind::invalid_argument,
        "{} rows come with positions, and the model takes none: {}", rows, limits.no_positions);
  const auto given = std::ssize(positions);
  check(given == rows || given == rows * limits.position_axes, ErrorKind::invalid_argument,
        "{} rows come with {} positions, expected one each{}", rows, given,
        limits.position_axes == 3 ? fmt::format(", or [3, {}]", rows) : "");
  for (const int64_t position : positions) {
    check(position >= 0 && position < limits.context, ErrorKind::invalid_argument,
          "position {} lies outside the context of {}", position, limits.context);
  }
}

namespace {

void check_embedded(const StepRequest& request, const TokenLimits& limits) {
  const auto rows = std::ssize(request.tokens);
  int64_t end = 0;
  for (const EmbeddedTokens& own : request.embedded) {
    check_embeddings(own.embeddings, limits);
    check(own.begin >= end && own.end() <= rows, ErrorKind::invalid_argument,
          "embeddings are for rows {} to {} of {}, those before end at {}", own.begin, own.end(),
          rows, end);
    end = own.end();
  }
}

void check_tokens(const StepRequest& request, const TokenLimits& limits) {
  const auto* own = request.embedded.data();
  const auto* last = own + request.embedded.size();
  for (int64_t row = 0; row < std::ssize(request.tokens); ++row) {
    const Token token = request.tokens[static_cast<size_t>(row)];
    while (own != last && own->end() <= row) ++own;
    const bool embedded = own != last && own->begin <= row;
    if (embedded && token < 0) continue;
    check(token >= 0 && token < limits.vocabulary, ErrorKind::invalid_argument,
          "token {} lies outside the vocabulary of {}", token, limits.vocabulary);
    if (embedded) continue;
    check(limits.ids, ErrorKind::invalid_argument,
          "row {} is token {}: the model takes embeddings only, and its folder has no program that "
          "makes them of tokens",
          row, token);
    for (const auto& [name, id] : limits.media) {
      check(token != id, ErrorKind::unsupported,
            "token {} is the model's '{}': images, videos and sounds are not supported yet, but "
            "for embeddings given in their place",
            token, name);
    }
  }
}

// Rows whose positions are not told go on from those before.
void check_room(const StepRequest& request, const TokenLimits& limits) {
  const auto rows = std::ssize(request.tokens);
  const int64_t next = request.sequence->next_position();
  check(next + rows <= limits.context, ErrorKind::invalid_argument,
        "{} rows from position {} on are more than the context of {} holds", rows, next,
        limits.context);
}

void check_logits(const StepRequest& request) {
  const auto rows = std::ssize(request.tokens);
  const int64_t wanted = request.logits.count(rows);
  check(wanted >= 0, ErrorKind::invalid_argument, "the logits of {} rows are wanted", wanted);
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t row = request.logits.at(i, rows);
    check(row >= 0 && row < rows, ErrorKind::invalid_argument,
          "the logits of row {} are wanted, of {}", row, rows);
  }
  if (request.sampling == nullptr) return;
  check(wanted > 0 && request.chosen != nullptr, ErrorKind::invalid_argument,
        "a token is to be chosen from the logits of {} rows{}", wanted,
        request.chosen == nullptr ? ", and goes nowhere" : "");
}

}  // namespace

void check_request(const StepRequest& request, const TokenLimits& limits) {
  const int64_t past = request.sequence->length();
  const auto rows = std::ssize(request.tokens);
  check(rows > 0, ErrorKind::invalid_argument,
        "a sequence of {} rows takes part in a step with {} tokens", past, rows);
  check(past + rows <= limits.context, ErrorKind::invalid_argument,
        "{} tokens are more than the context of {} holds", past + rows, limits.context);
  check(request.adapter == 0, ErrorKind::unsupported,
        "adapter {} is asked for: adapters are not supported yet", request.adapter);
  check_embedded(request, limits);
  check_tokens(request, limits);
  if (request.positions.empty()) {
    check_room(request, limits);
  } else {
    check_positions(request.positions, rows, limits);
  }
  check_logits(request);
  if (request.sampling != nullptr) check_block(*request.sampling, limits.vocabulary);
}

}  // namespace lathe::llm
