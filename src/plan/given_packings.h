// SPDX-License-Identifier: MIT
// Packed weights that a lowered program has: kernels made from it take them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace lathe {

// The content hashes of a packing's sources, as its text has them.
std::string hashes_text(std::span<const uint64_t> hashes);

// During its lifetime, plans made on this thread take these weights.
class GivenPackings {
 public:
  GivenPackings();
  ~GivenPackings();
  GivenPackings(const GivenPackings&) = delete;
  GivenPackings& operator=(const GivenPackings&) = delete;

  // `sources`: null for those that the packing does not have; `hashes`: hashes_text() of what was
  // packed. The first of equal ones counts.
  void add(const std::string& format, std::span<const Tensor* const> sources, std::string hashes,
           Tensor packed);
  // Those of the innermost scope; no data if it has none of this size. Warns of sources that are
  // not what was packed, and has none for them.
  static Tensor find(const std::string& format, std::span<const Tensor* const> sources,
                     size_t bytes);

 private:
  struct Packing {
    std::string hashes;
    Tensor packed;
  };
  // A program's literals stay where they are: their data, type and dims.
  using Key = std::pair<std::string, std::vector<std::pair<const void*, std::string>>>;
  static Key key_of(const std::string& format, std::span<const Tensor* const> sources);
  std::map<Key, Packing> packings_;
  GivenPackings* outer_;
};

}  // namespace lathe
