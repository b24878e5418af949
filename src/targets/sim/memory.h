// SPDX-License-Identifier: MIT
// Memory that faults on the host: addresses are shifted to where no processor maps memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "tensor/tensor.h"

namespace lathe::sim {

// Bit 55 alone: not canonical on x86-64 with 48- or 57-bit addresses; on ARM64 it selects the
// system's half, and lies below the byte that is ignored in addresses.
inline constexpr uintptr_t kShift = uintptr_t{1} << 55;

inline bool is_shifted(const void* pointer) {
  return (reinterpret_cast<uintptr_t>(pointer) & kShift) != 0;
}

// Live blocks of a simulated device. Fresh memory holds NaN. Thread-safe.
class Memory final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;

  // Registers the block [base, base + bytes) of real memory; returns its shifted address.
  void* add(void* base, size_t bytes);
  void remove(void* shifted) noexcept;

  // The real address of [pointer, pointer + bytes); a host address is returned as it is. A Device
  // error unless the bytes lie in one live block.
  void* real(const void* pointer, size_t bytes) const;
  // The view with its real address; checks every byte that its elements may touch.
  TensorView real(const TensorView& view) const;
  int64_t live_blocks() const;

 private:
  struct Block {
    size_t bytes = 0;
    void* base = nullptr;  // its real address, which leak checkers follow
  };

  mutable std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;  // by shifted base
};

}  // namespace lathe::sim
