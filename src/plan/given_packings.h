// SPDX-License-Identifier: MIT
// Packed weights that a lowered program has: kernels made from it take them.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tensor/tensor.h"

namespace lathe {

// During its lifetime, plans made on this thread take these weights.
class GivenPackings {
 public:
  GivenPackings();
  ~GivenPackings();
  GivenPackings(const GivenPackings&) = delete;
  GivenPackings& operator=(const GivenPackings&) = delete;

  // `sources`: null for those that the packing does not have. The first of equal ones counts.
  void add(const std::string& format, std::span<const Tensor* const> sources, Tensor packed);
  // Those of the innermost scope; no data if it has none of this size.
  static Tensor find(const std::string& format, std::span<const Tensor* const> sources,
                     size_t bytes);

 private:
  // A program's literals stay where they are.
  using Key = std::pair<std::string, std::vector<std::pair<const void*, int64_t>>>;
  static Key key_of(const std::string& format, std::span<const Tensor* const> sources);
  std::map<Key, Tensor> packings_;
  GivenPackings* outer_;
};

}  // namespace lathe
