// SPDX-License-Identifier: MIT
// One measured figure of a row.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/box.h"

namespace lathe::bench {

struct Line {
  std::string subject;  // model, or size; may be empty
  std::string what;
  double value = 0;
  std::string unit;
  bool counted = false;  // not a time: one run of this program suffices
  bool more_is_better = false;
  std::string results{};  // hash of the results, for comparison between builds
};
using Lines = std::vector<Line>;

// Hash of results, which must be tensors. Internal error for a float that is not finite.
inline std::string hash_of(std::span<const Box> boxes) {
  uint64_t hash = 0;
  for (const Box& box : boxes) {
    const Tensor tensor = box.tensor().dense();
    if (tensor.type() == ElementType::f32) {
      for (const float x : tensor.elements<float>()) {
        check(std::isfinite(x), ErrorKind::internal, "a result contains {}", x);
      }
    }
    hash = XXH3_64bits_withSeed(tensor.data(), static_cast<size_t>(tensor.byte_size()), hash);
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace lathe::bench
