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

#include "base/file_map.h"
#include "base/thread_pool.h"
#include "targets/cpu/weight_store.h"
#include "tests/support/folder.h"

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

// Threads of a pool access pages ahead of the matrices that use them.
TEST(WeightMemory, IsZeroedAndOwnWhereAPoolAccessesItFirst) {
  ThreadPool pool(3);
  std::vector<std::unique_ptr<WeightMemory>> owned;
  for (size_t i = 0; i < 100; ++i) {
    const size_t bytes = 1 + i * i * 311 % 3000000;
    owned.push_back(std::make_unique<WeightMemory>(bytes, i % 5 == 4 ? nullptr : &pool));
    EXPECT_TRUE(is_zero(*owned.back(), bytes));
    std::memset(owned.back()->data(), static_cast<int>(i + 1), bytes);
  }
  for (size_t i = 0; i < owned.size(); ++i) {
    EXPECT_EQ(*static_cast<unsigned char*>(owned[i]->data()), i + 1);
  }
}

// Sources in a file are the same where they lie in the same place.
TEST(WeightMemory, PacksWeightsOfAMappedFileOnce) {
  const TestFolder folder;
  const std::string path = folder.write("weights", std::string(8192, 'a'));
  const auto pack = [](const std::shared_ptr<const FileMap>& map, int64_t at, const char* id) {
    auto* data = const_cast<std::byte*>(map->bytes().data()) + at;
    const Tensor source(ElementType::u8, {64, 32}, {32, 1}, data,
                        std::const_pointer_cast<FileMap>(map));
    const Tensor* sources[] = {nullptr, &source};
    return packed_weights(sources, id, 64, [](void* to, ThreadPool*) { std::memset(to, 1, 64); });
  };
  const auto one = pack(FileMap::open(path), 64, "a");
  EXPECT_EQ(pack(FileMap::open(path), 64, "a"), one);
  EXPECT_NE(pack(FileMap::open(path), 128, "a"), one);
  EXPECT_NE(pack(FileMap::open(path), 64, "b"), one);
  write_file(path, std::string(8192, 'b'));
  EXPECT_NE(pack(FileMap::open(path), 64, "a"), one);
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
