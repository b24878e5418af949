// SPDX-License-Identifier: MIT
// The simulated device itself: memory that faults on the host, order, failures, captures.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "targets/sim/kernel.h"
#include "targets/sim/target.h"

namespace lathe::sim {
namespace {

// A block of device memory.
class Block {
 public:
  Block(const SimDevice& device, size_t bytes)
      : memory_(device.memory()), bytes_(bytes), data_(memory_.allocate(bytes, 64)) {}
  ~Block() { memory_.deallocate(data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* data() const { return data_; }

 private:
  Memory& memory_;
  size_t bytes_;
  void* data_;
};

TensorView vector_view(void* data, int64_t count) {
  TensorView view;
  view.rank = 1;
  view.dims[0] = count;
  view.strides[0] = 1;
  view.data = data;
  return view;
}

TEST(Sim, MemoryFaultsOnTheHost) {
  const SimDevice device(1);
  const Block block(device, 64);
  volatile char* pointer = static_cast<char*>(block.data());
  EXPECT_DEATH({ *pointer = 1; }, "");
  EXPECT_DEATH({ static_cast<void>(*pointer); }, "");
}

TEST(Sim, FreshMemoryHoldsNan) {
  const SimDevice device(1);
  const Block block(device, 2 * sizeof(float));
  const auto stream = device.make_stream();
  std::array<float, 2> host{1, 2};
  stream->copy(host.data(), block.data(), sizeof(host));
  stream->synchronize();
  EXPECT_TRUE(std::isnan(host[0]) && std::isnan(host[1]));
}

TEST(Sim, RunsWorkInOrderAndReadsHostMemoryLate) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const SimDevice device(seed);
    const Block block(device, sizeof(int64_t));
    const auto stream = device.make_stream();
    std::array<int64_t, 200> from{};
    std::array<int64_t, 200> to{};
    for (size_t i = 0; i < from.size(); ++i) {
      from[i] = static_cast<int64_t>(i);
      stream->copy(block.data(), &from[i], sizeof(int64_t));
      stream->copy(&to[i], block.data(), sizeof(int64_t));
    }
    stream->synchronize();
    EXPECT_EQ(from, to);
  }
}

TEST(Sim, RefusesMemoryThatIsNotLive) {
  const SimDevice device(1);
  const auto stream = device.make_stream();
  std::array<char, 64> host{};
  void* freed = device.allocator().allocate(64, 64);
  device.allocator().deallocate(freed, 64);
  stream->copy(host.data(), freed, 64);
  EXPECT_THROW(stream->synchronize(), Error);
  const Block block(device, 32);
  stream->copy(block.data(), host.data(), 64);  // 32 bytes too many
  EXPECT_THROW(stream->synchronize(), Error);
  stream->copy(block.data(), host.data(), 32);
  stream->synchronize();
}

TEST(Sim, ChecksEveryElementOfAView) {
  const SimDevice device(1);
  const Block block(device, 4 * sizeof(float));
  const auto stream = device.make_stream();
  const auto kernel = on_stream(device, make_copy_kernel());
  std::array<float, 5> host{1, 2, 3, 4, 5};
  const auto launch = [&](const TensorView& from, TensorView to) {
    const TensorView* in[] = {&from};
    TensorView* out[] = {&to};
    LaunchArgs args;
    args.in = in;
    args.out = out;
    args.stream = stream.get();
    kernel->launch(args);
  };
  launch(vector_view(host.data(), 4), vector_view(block.data(), 4));
  stream->synchronize();
  launch(vector_view(host.data(), 5), vector_view(block.data(), 5));
  EXPECT_THROW(stream->synchronize(), Error);
  // Backwards, from the last element on: inside; from the first: outside.
  TensorView backward = vector_view(static_cast<float*>(block.data()) + 3, 4);
  backward.strides[0] = -1;
  launch(backward, vector_view(host.data(), 4));
  stream->synchronize();
  EXPECT_EQ(host, (std::array<float, 5>{4, 3, 2, 1, 5}));
  backward.data = block.data();
  launch(backward, vector_view(host.data(), 4));
  EXPECT_THROW(stream->synchronize(), Error);
}

TEST(Sim, SkipsWorkAfterAFailure) {
  const SimDevice device(1);
  const auto stream = device.make_stream();
  const auto event = device.make_event();
  int value = 1;
  const int two = 2;
  const Block block(device, 4);
  stream->copy(block.data(), &value, 64);  // beyond the block
  stream->copy(&value, &two, sizeof(value));
  stream->record(*event);
  EXPECT_THROW(event->synchronize(), Error);
  EXPECT_THROW(stream->synchronize(), Error);
  EXPECT_EQ(value, 1);
  stream->copy(&value, &two, sizeof(value));
  stream->synchronize();
  EXPECT_EQ(value, 2);
}

TEST(Sim, ReplaysCapturedWorkWithTheMemoryOfThatTime) {
  const SimDevice device(1);
  const Block block(device, sizeof(int));
  const auto stream = device.make_stream();
  int from = 1;
  int to = 0;
  stream->begin_capture();
  stream->copy(block.data(), &from, sizeof(int));
  stream->copy(&to, block.data(), sizeof(int));
  const auto capture = stream->end_capture();
  stream->synchronize();
  EXPECT_EQ(to, 0);
  for (from = 5; from < 8; ++from) {
    stream->replay(*capture);
    stream->synchronize();
    EXPECT_EQ(to, from);
  }
}

TEST(Sim, AddressRangesGrowInPlace) {
  const SimDevice device(1);
  const auto stream = device.make_stream();
  const auto range = device.reserve(int64_t{1} << 40);
  range->commit(0, 100);
  std::array<char, 200> host{};
  host.fill(7);
  stream->copy(range->base(), host.data(), 100);
  range->commit(100, 100);
  stream->copy(static_cast<char*>(range->base()) + 100, host.data() + 100, 100);
  std::array<char, 200> back{};
  stream->copy(back.data(), range->base(), 200);
  stream->synchronize();
  EXPECT_EQ(host, back);
  stream->copy(back.data(), range->base(), 201);
  EXPECT_THROW(stream->synchronize(), Error);
  EXPECT_THROW(range->commit(0, (int64_t{1} << 40) + 1), Error);
}

}  // namespace
}  // namespace lathe::sim
