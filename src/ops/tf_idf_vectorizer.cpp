// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>

#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

int64_t vector_size(const Integers& indexes) {
  return indexes.empty() ? 0 : *std::max_element(indexes.begin(), indexes.end()) + 1;
}

void infer_tf_idf_vectorizer(Infer& c) {
  require_choice(c, "mode", {"TF", "IDF", "TFIDF"});
  const Integers& indexes = c.integers("ngram_indexes");
  for (const int64_t index : indexes) {
    c.check(index >= 0 && index < (int64_t{1} << 31),
            "ngram_indexes has {}, expected 0 to 2^31 - 1", index);
  }
  require_rank(c, 0, 1, 2);
  const int64_t least = c.integer("min_gram_length");
  const int64_t most = c.integer("max_gram_length");
  c.check(least >= 1 && least <= most, "min_gram_length is {}, max_gram_length {}", least, most);
  require_integer(c, "max_skip_count", 0);
  std::vector<Dim> dims = c.dims(0);
  dims.back() = vector_size(indexes);
  c.result(ElementType::f32, std::move(dims));
}

// Items of one type as numbers: strings get the number of their first occurrence in the pool.
struct Items {
  std::vector<int64_t> pool;
  std::vector<int64_t> x;  // -1: not in the pool
};

Items items_of(const Evaluation& c) {
  Items items;
  if (c.in(0).type != ElementType::string) {
    items.pool = c.has_attribute("pool_int64s") ? c.integers("pool_int64s") : Integers();
    items.x = c.values(0);
    return items;
  }
  std::map<std::string, int64_t> numbers;
  const Texts pool = c.has_attribute("pool_strings") ? c.texts("pool_strings") : Texts();
  for (const std::string& text : pool) {
    items.pool.push_back(numbers.emplace(text, static_cast<int64_t>(numbers.size())).first->second);
  }
  for_each_index(c.in(0).extents(), [&](std::span<const int64_t> at) {
    const auto found = numbers.find(c.in(0).as<std::string>()[offset_of(c.in(0), at)]);
    items.x.push_back(found == numbers.end() ? -1 : found->second);
  });
  return items;
}

using Grams = std::map<std::vector<int64_t>, std::vector<size_t>>;  // to entries of the pool

// The pool's n-grams: ngram_counts[n - 1] is where those of n items begin.
Grams grams_of(const Evaluation& c, const std::vector<int64_t>& pool) {
  Grams grams;
  const Integers& counts = c.integers("ngram_counts");
  size_t entry = 0;
  for (size_t n = 1; n <= counts.size(); ++n) {
    const int64_t begin = counts[n - 1];
    const int64_t end = n < counts.size() ? counts[n] : static_cast<int64_t>(pool.size());
    c.check(begin >= 0 && begin <= end && end <= static_cast<int64_t>(pool.size()),
            "ngram_counts has {} after {}, the pool has {} items", end, begin, pool.size());
    c.check((end - begin) % static_cast<int64_t>(n) == 0, "the pool has {} items of {}-grams",
            end - begin, n);
    for (auto at = pool.begin() + begin; at != pool.begin() + end; at += static_cast<int64_t>(n)) {
      grams[{at, at + static_cast<int64_t>(n)}].push_back(entry++);
    }
  }
  c.check(entry == c.integers("ngram_indexes").size(),
          "the pool has {} n-grams, ngram_indexes has {} entries", entry,
          c.integers("ngram_indexes").size());
  return grams;
}

void eval_tf_idf_vectorizer(Evaluation& c) {
  const Items items = items_of(c);
  const Grams grams = grams_of(c, items.pool);
  const Integers& indexes = c.integers("ngram_indexes");
  const Numbers weights = c.has_attribute("weights") ? c.numbers("weights") : Numbers();
  c.check(weights.empty() || weights.size() == indexes.size(),
          "weights has {} entries, expected {}", weights.size(), indexes.size());
  const std::string& mode = c.text("mode");
  const TensorView& out = c.out(0);
  const Tensor y(ElementType::f32, dims_of(out));
  const int64_t length = c.in(0).extents().back();
  const int64_t size = vector_size(indexes);
  const int64_t lines = length == 0 ? 0 : static_cast<int64_t>(items.x.size()) / length;
  std::vector<int64_t> gram;
  for (int64_t line = 0; line < lines; ++line) {
    float* counts = y.as<float>() + line * size;
    const int64_t* x = items.x.data() + line * length;
    const int64_t most = std::min(c.integer("max_gram_length"), length);
    for (int64_t n = c.integer("min_gram_length"); n <= most; ++n) {
      // A single item has no distances: skips would count it again.
      const int64_t skips = n == 1 ? 0 : c.integer("max_skip_count");
      for (int64_t step = 1; step - 1 <= skips && (n - 1) * step < length; ++step) {
        for (int64_t first = 0; first + (n - 1) * step < length; ++first) {
          gram.clear();
          for (int64_t i = 0; i < n; ++i) gram.push_back(x[first + i * step]);
          const auto found = grams.find(gram);
          if (found == grams.end()) continue;
          for (const size_t entry : found->second) counts[indexes[entry]] += 1;
        }
      }
    }
    if (mode == "TF") continue;
    std::vector<float> factors(static_cast<size_t>(size), 1);
    for (size_t i = 0; i < weights.size(); ++i) {
      factors[static_cast<size_t>(indexes[i])] = static_cast<float>(weights[i]);
    }
    for (int64_t i = 0; i < size; ++i) {
      if (mode == "IDF") counts[i] = std::min(counts[i], 1.0F);
      counts[i] *= factors[static_cast<size_t>(i)];
    }
  }
  store_tensor(y, out);
}

}  // namespace

static const Register tf_idf_vectorizer{{
    .name = "tf_idf_vectorizer",
    .doc = "Counts of the pool's n-grams in each row of x, limited to 1 (IDF) and weighted (IDF, "
           "TFIDF).",
    .operands = {{"x", kString | kIndices}},
    .attributes = {{"max_gram_length", AttributeKind::integer},
                   {"max_skip_count", AttributeKind::integer},
                   {"min_gram_length", AttributeKind::integer},
                   {"mode", AttributeKind::text},
                   {"ngram_counts", AttributeKind::integers},
                   {"ngram_indexes", AttributeKind::integers},
                   {"pool_int64s", AttributeKind::integers, false},
                   {"pool_strings", AttributeKind::texts, false},
                   {"weights", AttributeKind::numbers, false}},
    .infer = infer_tf_idf_vectorizer,
    .eval = eval_tf_idf_vectorizer,
}};

}  // namespace lathe
