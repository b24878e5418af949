// SPDX-License-Identifier: MIT
// Memory of packed weights. Matrices share large pages: reading small ones would cost a miss of
// the TLB per page.
#pragma once

#include <cstddef>
#include <memory>

namespace lathe::cpu {

class WeightMemory {
 public:
  // Zeroed memory, aligned to a page. OutOfMemory.
  explicit WeightMemory(size_t bytes);
  ~WeightMemory();
  WeightMemory(const WeightMemory&) = delete;
  WeightMemory& operator=(const WeightMemory&) = delete;
  void* data() const { return data_; }

 private:
  struct Chunk;
  std::shared_ptr<Chunk> chunk_;
  void* data_ = nullptr;
  size_t bytes_;
};

}  // namespace lathe::cpu
