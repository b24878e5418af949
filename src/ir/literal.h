// SPDX-License-Identifier: MIT
// Constant tensors: memory-mapped from their file, or computed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tensor/tensor.h"

namespace lathe {

// kInlineLiteralBytes: the largest literal that prints inline. kDeferredBytes: the largest one that
// folding evaluates at once; larger ones are deferred (see Instruction::deferred).
inline constexpr int64_t kDeferredBytes = 64 * 1024;
inline constexpr int64_t kInlineLiteralBytes = 1024;

struct Literal {
  Tensor tensor;
  // Location of the bytes in a file (empty path: none); with it the text form needs no side file.
  std::string file;
  int64_t offset = 0;
  // A LoRA adapter's weight: never folded or prepacked; sessions may bind another tensor.
  bool bindable = false;

  // Content hash (XXH3) of type, shape and bytes, computed on first use.
  uint64_t hash() const;

 private:
  mutable uint64_t hash_ = 0;
};
using LiteralRef = std::shared_ptr<const Literal>;

}  // namespace lathe
