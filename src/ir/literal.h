// SPDX-License-Identifier: MIT
// Constant tensors: memory-mapped from their file, or computed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tensor/tensor.h"

namespace lathe {

// Literals of at most this many bytes print inline, and folding computes them at once; above it,
// folding defers (see Instruction::deferred).
inline constexpr int64_t kDeferredBytes = 64 * 1024;
inline constexpr int64_t kInlineLiteralBytes = 1024;

struct Literal {
  Tensor tensor;
  // Where the bytes lie in a file (empty path: they do not); the text form then needs no side file.
  std::string file;
  int64_t offset = 0;
  // An adapter's weight: never folded or packed away; sessions bind another tensor in its place.
  bool bindable = false;

  // Content hash of type, extents and bytes (XXH3), computed on first use.
  uint64_t hash() const;

 private:
  mutable uint64_t hash_ = 0;
};
using LiteralRef = std::shared_ptr<const Literal>;

}  // namespace lathe
