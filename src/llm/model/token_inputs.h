// SPDX-License-Identifier: MIT
// What rows of a sequence come with beside token ids: embeddings in their place, and positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/search/search_options.h"
#include "tensor/tensor.h"

namespace lathe::llm {

using search::Token;

// Rows that take the place of tokens' embeddings, such as those of an image.
struct Embeddings {
  Tensor rows;        // [rows, hidden]: f32, f16, bf16 or f64
  uint64_t hash = 0;  // of what they show: rows of equal hashes are taken for the same

  int64_t count() const { return rows.rank() == 2 ? rows.dims()[0] : 0; }
  // Stands for a row where a sequence's tokens are listed; below 0.
  Token token(int64_t row) const;
};
// With the hash of their type, extents and bytes.
Embeddings make_embeddings(Tensor rows);

// Embeddings of rows [begin, end()).
struct EmbeddedTokens {
  int64_t begin = 0;
  Embeddings embeddings{};

  int64_t end() const { return begin + embeddings.count(); }
};
// Of rows [from, to), counted from `from`. Rows are shared, not copied.
std::vector<EmbeddedTokens> cut_embedded(std::span<const EmbeddedTokens> all, int64_t from,
                                         int64_t to);
// How many of the first `length` rows come with the same in both lists, which ascend.
int64_t same_embedded(std::span<const EmbeddedTokens> a, std::span<const EmbeddedTokens> b,
                      int64_t length);

// Where a sequence's rows stand. Those that nothing was told of stand one behind the other, the
// first of them behind the largest position before it: what Transformers calls a rope delta.
class Positions {
 public:
  // Rows that were told theirs.
  struct Run {
    int64_t begin = 0;
    int64_t count = 0;
    std::vector<int64_t> values{};  // [count], or [3, count]: of time, height and width
    int64_t next = 0;               // behind the largest of the rows up to the last

    int64_t end() const { return begin + count; }
    int64_t axes() const { return count > 0 ? std::ssize(values) / count : 1; }
    int64_t at(int64_t axis, int64_t row) const;  // of the sequence's row
  };

  const std::vector<Run>& runs() const { return runs_; }
  // Of row `length`, if it is not told; all rows told so far are before it.
  int64_t next(int64_t length) const;
  // The next rows', which begin at `begin`: [rows] or [3, rows].
  void add(int64_t begin, int64_t rows, std::span<const int64_t> values);
  void truncate(int64_t length);
  // Those of rows [begin, begin + rows), [rows] or [3, rows]; empty if nothing was told of them.
  std::vector<int64_t> read(int64_t begin, int64_t rows) const;
  // How many of the first `length` rows stand where they do in the other.
  int64_t same(const Positions& other, int64_t length) const;

 private:
  std::vector<Run> runs_;  // ascending, apart
};

}  // namespace lathe::llm
