// SPDX-License-Identifier: MIT
// Inputs of a sequence's tokens beside their ids: embeddings in place of tokens, and position ids.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/search/search_options.h"
#include "tensor/tensor.h"

namespace lathe::llm {

using search::Token;

// Embeddings in place of tokens, such as those of an image.
struct Embeddings {
  Tensor values;      // [tokens, hidden]: f32, f16, bf16 or f64
  uint64_t hash = 0;  // of their content; equal hashes count as equal embeddings

  int64_t count() const { return values.rank() == 2 ? values.dims()[0] : 0; }
  // Placeholder of embedding `index` in a sequence's list of tokens; below 0.
  Token token(int64_t index) const;
};
// Hashes element type, shape and bytes.
Embeddings make_embeddings(Tensor values);

// Embeddings of tokens [begin, end()).
struct EmbeddedTokens {
  int64_t begin = 0;
  Embeddings embeddings{};

  int64_t end() const { return begin + embeddings.count(); }
};
// Embeddings of tokens [from, to), with positions relative to `from`. Shares the memory.
std::vector<EmbeddedTokens> cut_embedded(std::span<const EmbeddedTokens> all, int64_t from,
                                         int64_t to);
// Length of the common prefix, at most `length`. Both lists ascend.
int64_t same_embedded(std::span<const EmbeddedTokens> a, std::span<const EmbeddedTokens> b,
                      int64_t length);

// Position ids of a sequence. Tokens without explicit ids continue at the largest id before them
// plus one (the rope delta of Transformers).
class Positions {
 public:
  // Tokens with explicit position ids.
  struct Run {
    int64_t begin = 0;
    int64_t count = 0;
    std::vector<int64_t> values{};  // [count], or [3, count] for time, height and width
    int64_t next = 0;               // largest id so far + 1

    int64_t end() const { return begin + count; }
    int64_t axes() const { return count > 0 ? std::ssize(values) / count : 1; }
    int64_t at(int64_t axis, int64_t token) const;  // `token`: index in the sequence
  };

  const std::vector<Run>& runs() const { return runs_; }
  // Implicit id of token `length`; all explicit ones are before it.
  int64_t next(int64_t length) const;
  // Explicit ids of the next tokens, from `begin` on: [tokens] or [3, tokens].
  void add(int64_t begin, int64_t tokens, std::span<const int64_t> values);
  void truncate(int64_t length);
  // Ids of tokens [begin, begin + tokens): [tokens] or [3, tokens]; empty if all are implicit.
  std::vector<int64_t> read(int64_t begin, int64_t tokens) const;
  // Length of the common prefix of ids, at most `length`.
  int64_t same(const Positions& other, int64_t length) const;

 private:
  std::vector<Run> runs_;  // ascending, disjoint
};

}  // namespace lathe::llm
