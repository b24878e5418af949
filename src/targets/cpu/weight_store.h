// SPDX-License-Identifier: MIT
// Packed weights, one copy per process, identified by packing and by content: that of a mapped file
// by its place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "targets/cpu/weight_memory.h"
#include "tensor/tensor.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

// Zeroed memory, or weights of a compiled file.
class PackedWeights {
 public:
  // `pool`: of WeightMemory.
  PackedWeights(size_t bytes, ThreadPool* pool)
      : own_(std::in_place, bytes, pool), data_(own_->data()), bytes_(bytes) {}
  PackedWeights(std::shared_ptr<const void> stored, size_t bytes)
      : data_(const_cast<void*>(stored.get())), bytes_(bytes), stored_(std::move(stored)) {}
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::optional<WeightMemory> own_;
  void* data_;
  size_t bytes_;
  std::shared_ptr<const void> stored_;  // keeps the file's bytes alive
};

// Packs into `to`; `pool` may be null.
using PackWeights = std::function<void(void* to, ThreadPool* pool)>;

// Weights of these sources with this packing. Calls `pack` if no holder exists and no compiled file
// has them. The last holder frees them.
std::shared_ptr<const PackedWeights> packed_weights(std::span<const Tensor* const> sources,
                                                    const std::string& packing_id, size_t bytes,
                                                    const PackWeights& pack);

struct WeightStoreSize {
  size_t entries = 0;
  size_t bytes = 0;
};
WeightStoreSize weight_store_size();
// How often weights were packed in this process.
int64_t weights_packed();

}  // namespace lathe::cpu
