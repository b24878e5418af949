// SPDX-License-Identifier: MIT
// Packed weights, one copy for the whole process: known by their content and by how they are
// packed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

// Memory aligned to a page, to a large one where it fills one; zero before it is packed into.
class PackedWeights {
 public:
  explicit PackedWeights(size_t bytes);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* reserved_;
  void* data_;
  size_t bytes_;
};

// Fills memory, with the threads that may help.
using PackWeights = std::function<void(void* to, ThreadPool* pool)>;

// The weights of these sources under this packing; `pack` is called if nobody holds them yet. They
// go when the last holder goes.
std::shared_ptr<const PackedWeights> packed_weights(std::span<const Tensor* const> sources,
                                                    const std::string& packing_id, size_t bytes,
                                                    const PackWeights& pack);

struct WeightStoreSize {
  size_t entries = 0;
  size_t bytes = 0;
};
WeightStoreSize weight_store_size();

}  // namespace lathe::cpu
