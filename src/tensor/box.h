// SPDX-License-Identifier: MIT
// Run-time values other than plain buffers: sequences, optionals, maps, tensors of unknown rank.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace lathe {

struct Box;
using BoxSequence = std::shared_ptr<const std::vector<Box>>;  // immutable once shared
struct BoxMap;                                                // keys and values, in key order

// Empty (an optional without a value), a tensor, a sequence or a map.
struct Box {
  std::variant<std::monostate, Tensor, BoxSequence, std::shared_ptr<const BoxMap>> value;

  bool empty() const { return value.index() == 0; }
  bool is_tensor() const { return value.index() == 1; }
  bool is_sequence() const { return value.index() == 2; }
  const Tensor& tensor() const { return std::get<Tensor>(value); }
  const std::vector<Box>& sequence() const { return *std::get<BoxSequence>(value); }
};

struct BoxMap {
  Tensor keys;  // i64[n] or string[n]
  std::vector<Box> values;
};

}  // namespace lathe
