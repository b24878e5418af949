// SPDX-License-Identifier: MIT
#include "targets/gpu/driver/host_traffic.h"

#include <algorithm>
#include <bit>

namespace lathe::gpu {

Traffic& Traffic::operator+=(const Traffic& other) {
  launches += other.launches;
  distinct_bytes += other.distinct_bytes;
  needed_bytes += other.needed_bytes;
  sectors += other.sectors;
  shared_passes += other.shared_passes;
  shared_conflicts += other.shared_conflicts;
  return *this;
}

TrafficCounter::Sector& TrafficCounter::Memory::at(uint64_t sector) {
  const uint64_t page = sector / kPageSectors;
  if (page != last) {
    std::unique_ptr<Page>& own = pages[page];
    if (own == nullptr) own = std::make_unique<Page>();
    last = page;
    last_page = own.get();
  }
  return (*last_page)[sector % kPageSectors];
}

void TrafficCounter::begin_launch() {
  memory_ = {};
  block_ = 0;
  traffic_ = {};
  traffic_.launches = 1;
}

void TrafficCounter::begin_block(uint32_t threads) {
  ++block_;
  waves_.clear();
  waves_.resize((threads + wave_ - 1) / wave_);
}

void TrafficCounter::add(uint32_t thread, const void* place, const void* address, uint32_t bytes,
                         AccessKind kind) {
  Site& site = waves_[thread / wave_][place];
  if (site.counts.empty()) {
    site.kind = kind;
    site.bytes = bytes;
    site.counts.resize(wave_);
  }
  const uint32_t lane = thread % wave_;
  const size_t at = size_t{site.counts[lane]++} * wave_ + lane;
  if (at >= site.addresses.size()) site.addresses.resize((at / wave_ + 1) * wave_);
  site.addresses[at] = reinterpret_cast<uint64_t>(address);
}

void TrafficCounter::end_step() {
  for (uint32_t wave = 0; wave < waves_.size(); ++wave) end_step(wave);
}

void TrafficCounter::end_step(uint32_t wave) {
  for (auto& [place, site] : waves_[wave]) {
    for (size_t first = 0; first < site.addresses.size(); first += wave_) {
      scratch_.clear();
      for (size_t i = 0; i < wave_; ++i) {
        if (site.addresses[first + i] != 0) scratch_.push_back(site.addresses[first + i]);
      }
      if (site.kind == AccessKind::shared) {
        count_shared(scratch_, site.bytes);
      } else {
        count_global(scratch_, site);
      }
    }
    site.addresses.clear();
    std::ranges::fill(site.counts, 0U);
  }
}

void TrafficCounter::count_global(std::vector<uint64_t>& addresses, const Site& site) {
  std::ranges::sort(addresses);
  uint64_t last = ~uint64_t{0};
  Memory& memory = memory_[site.kind == AccessKind::store ? 1 : 0];
  for (const uint64_t address : addresses) {
    uint64_t at = address;
    for (const uint64_t end = address + site.bytes; at < end;) {
      const uint64_t sector = at / Traffic::kSector;
      const uint64_t offset = at % Traffic::kSector;
      const uint64_t count = std::min<uint64_t>(end - at, Traffic::kSector - offset);
      const auto bits = static_cast<uint32_t>(((uint64_t{1} << count) - 1) << offset);
      if (sector != last) ++traffic_.sectors;
      last = sector;
      Sector& own = memory.at(sector);
      if (own.block != block_) {
        own.block = block_;
        own.of_block = 0;
      }
      traffic_.needed_bytes += std::popcount(bits & ~own.of_block);
      traffic_.distinct_bytes += std::popcount(bits & ~own.of_launch);
      own.of_block |= bits;
      own.of_launch |= bits;
      at += count;
    }
  }
}

// There are 32 banks of 4 bytes. Accesses of more bytes take several passes, each of as many
// threads as have 128 bytes.
void TrafficCounter::count_shared(const std::vector<uint64_t>& addresses, uint32_t bytes) {
  constexpr size_t kBanks = 32;
  constexpr uint32_t kWord = 4;
  const uint32_t words = (bytes + kWord - 1) / kWord;
  const size_t threads = std::max<size_t>(kBanks / words, 1);
  for (size_t first = 0; first < addresses.size(); first += threads) {
    std::array<std::vector<uint64_t>, kBanks> banks;
    for (size_t i = first; i < std::min(first + threads, addresses.size()); ++i) {
      for (uint32_t word = 0; word < words; ++word) {
        const uint64_t at = addresses[i] / kWord + word;
        std::vector<uint64_t>& bank = banks[at % kBanks];
        if (std::ranges::find(bank, at) == bank.end()) bank.push_back(at);
      }
    }
    size_t most = 0;
    for (const auto& bank : banks) most = std::max(most, bank.size());
    ++traffic_.shared_passes;
    traffic_.shared_conflicts += static_cast<int64_t>(most) - 1;
  }
}

}  // namespace lathe::gpu
