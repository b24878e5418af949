// SPDX-License-Identifier: MIT
// Counts the memory that the loads and stores of kernels on the host driver touch. The accesses of
// one instruction by the threads of a wave, each for the same time since a barrier, are one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace lathe::gpu {

// What the launches of one kernel touched.
struct Traffic {
  int64_t launches = 0;
  int64_t distinct_bytes = 0;    // each once per launch, read and written ones apart
  int64_t needed_bytes = 0;      // each once per block
  int64_t sectors = 0;           // of 32 bytes, each once per wave and access
  int64_t shared_passes = 0;     // of shared memory, if no banks conflicted
  int64_t shared_conflicts = 0;  // further ones

  static constexpr int64_t kSector = 32;
  // Bytes of the sectors per byte that is needed.
  double fetched() const { return needed_bytes == 0 ? 1 : ratio(sectors * kSector, needed_bytes); }
  // How many blocks read or write a byte.
  double shared_by() const { return distinct_bytes == 0 ? 1 : ratio(needed_bytes, distinct_bytes); }
  // Passes per access without conflict.
  double ways() const {
    return shared_passes == 0 ? 1 : ratio(shared_passes + shared_conflicts, shared_passes);
  }
  Traffic& operator+=(const Traffic& other);

 private:
  static double ratio(int64_t a, int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  }
};

enum class AccessKind : uint32_t { load, store, shared };  // the numbers in kernels/prelude.gpu

class TrafficCounter {
 public:
  explicit TrafficCounter(uint32_t wave) : wave_(wave) {}

  void begin_launch();
  void begin_block(uint32_t threads);
  // By a thread of the block, from the instruction at `place`.
  void add(uint32_t thread, const void* place, const void* address, uint32_t bytes,
           AccessKind kind);
  // The threads of a wave, or of the block, wait for each other.
  void end_step(uint32_t wave);
  void end_step();
  const Traffic& traffic() const { return traffic_; }  // of the launch

 private:
  struct Site {
    AccessKind kind = AccessKind::load;
    uint32_t bytes = 0;
    std::vector<uint32_t> counts;     // of accesses, by lane
    std::vector<uint64_t> addresses;  // by access, then lane; 0: none
  };
  struct Sector {
    uint32_t block = 0;  // the last one that touched it
    uint32_t of_block = 0;
    uint32_t of_launch = 0;  // bits of bytes
  };
  static constexpr uint64_t kPageSectors = 128;
  using Page = std::array<Sector, kPageSectors>;
  struct Memory {
    Sector& at(uint64_t sector);
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
    uint64_t last = ~uint64_t{0};
    Page* last_page = nullptr;
  };

  void count_global(std::vector<uint64_t>& addresses, const Site& site);
  void count_shared(const std::vector<uint64_t>& addresses, uint32_t bytes);

  uint32_t wave_;
  uint32_t block_ = 0;
  std::vector<std::unordered_map<const void*, Site>> waves_;
  std::array<Memory, 2> memory_;  // read, written
  std::vector<uint64_t> scratch_;
  Traffic traffic_;
};

}  // namespace lathe::gpu
