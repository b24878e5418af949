// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include "targets/cpu/weight_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace lathe::cpu {
namespace {

constexpr size_t kPage = 4096;

bool is_zero(const WeightMemory& memory, size_t bytes) {
  const auto* data = static_cast<const unsigned char*>(memory.data());
  return std::all_of(data, data + bytes, [](unsigned char byte) { return byte == 0; });
}

bool is_resident(const void* data, size_t bytes) {
  std::vector<unsigned char> pages(bytes / kPage);
  EXPECT_EQ(mincore(const_cast<void*>(data), bytes, pages.data()), 0);
  return std::ranges::any_of(pages, [](unsigned char page) { return (page & 1) != 0; });
}

TEST(WeightMemory, IsZeroedAndBelongsToOneOwner) {
  constexpr size_t kThreads = 4, kEach = 40;
  std::vector<std::vector<std::unique_ptr<WeightMemory>>> owned(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&own = owned[t], t] {
      for (size_t i = 0; i < kEach; ++i) {
        const size_t bytes = 1 + (i * 77777 + t * 1234) % 900000;
        own.push_back(std::make_unique<WeightMemory>(bytes));
        EXPECT_TRUE(is_zero(*own.back(), bytes));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(own.back()->data()) % kPage, 0U);
        std::memset(own.back()->data(), static_cast<int>(t + 1), bytes);
        if (i % 3 == 2) own.erase(own.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    for (const auto& memory : owned[t]) {
      EXPECT_EQ(*static_cast<unsigned char*>(memory->data()), t + 1);
    }
  }
}

TEST(WeightMemory, OfALargeMatrixIsWhole) {
  constexpr size_t kBytes = size_t{80} << 20;
  const WeightMemory memory(kBytes);
  auto* data = static_cast<unsigned char*>(memory.data());
  data[0] = data[kBytes - 1] = 1;
  EXPECT_EQ(data[kBytes / 2], 0);
}

TEST(WeightMemory, IsGivenBackWhileOthersShareItsPages) {
  constexpr size_t kBytes = 50 * kPage;
  // As large as any that shares: the others follow it.
  const WeightMemory before(size_t{16} << 20);
  std::optional<WeightMemory> first(std::in_place, kBytes);
  const WeightMemory second(kBytes);
  ASSERT_EQ(static_cast<std::byte*>(first->data()) + kBytes, second.data());
  std::memset(first->data(), 1, kBytes);
  std::memset(second.data(), 2, kBytes);
  const void* const data = first->data();
  ASSERT_TRUE(is_resident(data, kBytes));
  first.reset();
  EXPECT_FALSE(is_resident(data, kBytes));
  EXPECT_FALSE(is_zero(second, kBytes));
}

}  // namespace
}  // namespace lathe::cpu
#endif
