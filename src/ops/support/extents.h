// SPDX-License-Identifier: MIT
// The extents of a result, built at every evaluation without heap allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "base/error.h"
#include "tensor/tensor.h"

namespace lathe {

class Extents {
 public:
  void add(std::span<const int64_t> more) {
    check(rank_ + more.size() <= dims_.size(), ErrorKind::unsupported,
          "the result has rank {} or more, at most {} is supported", rank_ + more.size(),
          dims_.size());
    std::ranges::copy(more, dims_.begin() + static_cast<std::ptrdiff_t>(rank_));
    rank_ += more.size();
  }
  std::span<const int64_t> span() const { return {dims_.data(), rank_}; }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  size_t rank_ = 0;
};

}  // namespace lathe
