// SPDX-License-Identifier: MIT
// Memory of packed weights. Matrices share large pages: reading small ones would cost a miss of
// the TLB per page.
#pragma once

#include <cstddef>
#include <memory>

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

class WeightMemory {
 public:
  // Zeroed memory, aligned to a page. The pool's threads (null: the next ones) access its pages
  // first, which places them on their memory nodes. OutOfMemory.
  explicit WeightMemory(size_t bytes, ThreadPool* pool = nullptr);
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
