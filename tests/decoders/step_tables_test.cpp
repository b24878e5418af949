// SPDX-License-Identifier: MIT
// Pages that forks share are copied before a step writes them: all of a group in one launch.
#include "llm/model/step_tables.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/error.h"
#include "tests/support/contains.h"
#include "tests/support/errors.h"
#include "tests/support/gpu_host_target.h"
#include "tests/support/sim_target.h"

namespace lathe::llm {
namespace {

// Counts launches that copy pages; limits committed bytes.
struct Watch {
  int64_t launches = 0;
  int64_t bytes_left = int64_t{1} << 30;
};

class WatchedStream final : public Stream {
 public:
  WatchedStream(std::unique_ptr<Stream> stream, Watch& watch)
      : stream_(std::move(stream)), watch_(watch) {}
  const Device& device() const override { return stream_->device(); }
  void copy(void* to, const void* from, size_t bytes) override { stream_->copy(to, from, bytes); }
  void copy_blocks(std::span<const BlockCopy> blocks) override {
    ++watch_.launches;
    stream_->copy_blocks(blocks);
  }
  void fill(void* to, std::byte value, size_t bytes) override { stream_->fill(to, value, bytes); }
  void record(Event& event) override { stream_->record(event); }
  void wait(Event& event) override { stream_->wait(event); }
  void synchronize() override { stream_->synchronize(); }
  void begin_capture() override { stream_->begin_capture(); }
  std::unique_ptr<Capture> end_capture() override { return stream_->end_capture(); }
  void replay(const Capture& capture) override { stream_->replay(capture); }

 private:
  std::unique_ptr<Stream> stream_;
  Watch& watch_;
};

class WatchedRange final : public AddressRange {
 public:
  WatchedRange(std::unique_ptr<AddressRange> range, Watch& watch)
      : range_(std::move(range)), watch_(watch) {}
  void* base() const override { return range_->base(); }
  int64_t bytes() const override { return range_->bytes(); }
  void commit(int64_t offset, int64_t bytes) override {
    check(bytes <= watch_.bytes_left, ErrorKind::out_of_memory, "{} bytes are left",
          watch_.bytes_left);
    watch_.bytes_left -= bytes;
    range_->commit(offset, bytes);
  }
  void release(int64_t offset, int64_t bytes) noexcept override { range_->release(offset, bytes); }

 private:
  std::unique_ptr<AddressRange> range_;
  Watch& watch_;
};

class WatchedDevice final : public Device {
 public:
  explicit WatchedDevice(const Device& device) : device_(device) {}
  std::string_view name() const override { return device_.name(); }
  bool host_accessible() const override { return device_.host_accessible(); }
  int64_t memory_bytes() const override { return int64_t{64} << 20; }
  Allocator& allocator() const override { return device_.allocator(); }
  std::unique_ptr<AddressRange> reserve(int64_t bytes) const override {
    return std::make_unique<WatchedRange>(device_.reserve(bytes), watch);
  }
  std::unique_ptr<Stream> make_stream() const override {
    return std::make_unique<WatchedStream>(device_.make_stream(), watch);
  }
  std::unique_ptr<Event> make_event() const override { return device_.make_event(); }

  mutable Watch watch;

 private:
  const Device& device_;
};

const Device& named_device(std::string_view name) {
  if (name == "host") return host_device();
  if (name == "sim") return *test::sim_target(false, test::kSimSeeds[0])->device();
  return *test::gpu_host_targets().front()->device();
}

constexpr int64_t kSlots = 4;

class SharedPages : public testing::TestWithParam<const char*> {
 protected:
  // Two groups, of three caches and of two: pages of 96, 24 and 4 bytes, and of 8,192 and 640.
  void SetUp() override {
    const auto cache = [](std::string name, ElementType element, Dims extents, int64_t window) {
      SequenceState state;
      state.name = std::move(name);
      state.element = element;
      state.grows = true;
      state.extents = std::move(extents);
      state.window = window;
      return state;
    };
    layout_ = std::make_shared<const CacheLayout>(
        std::vector{cache("a", ElementType::f32, {2, 3}, 0),
                    cache("b", ElementType::f16, {1, 3}, 0), cache("c", ElementType::i8, {1, 1}, 0),
                    cache("d", ElementType::f32, {8, 64}, 16),
                    cache("e", ElementType::u8, {4, 40}, 16)},
        kSlots, false, device_);
  }

  void step(std::vector<Sequence*> sequences, int64_t tokens, bool commits = true) {
    StepTables step(*layout_, lists_);
    for (Sequence* sequence : sequences) step.add(*sequence, tokens);
    step.prepare();
    for (size_t group = 0; group < layout_->groups().size(); ++group) {
      const StepTables::Pages& table = step.pages(group);
      for (size_t i = 0; i < sequences.size(); ++i) {
        const int64_t end = sequences[i]->length() + tokens;
        for (int64_t at = 0; at < end; at += kSlots) {
          EXPECT_EQ(
              table.ids[i * static_cast<size_t>(table.columns) + static_cast<size_t>(at / kSlots)],
              sequences[i]->page(group, at));
        }
      }
    }
    if (commits) step.commit();
  }
  static std::byte value_of(size_t cache, int64_t number, size_t at) {
    return std::byte((cache * 71 + static_cast<size_t>(number) * 29 + at * 13) % 251);
  }
  // Writes each page that holds positions [0, length).
  void write(const Sequence& sequence) {
    each_page(sequence, PagePool::HostPage::Access::write,
              [](std::byte& value, std::byte expected) { value = expected; });
  }
  void expect_written(const Sequence& sequence) {
    int64_t wrong = 0;
    each_page(sequence, PagePool::HostPage::Access::read,
              [&](std::byte value, std::byte expected) { wrong += value != expected; });
    EXPECT_EQ(wrong, 0);
  }
  template <class Use>
  void each_page(const Sequence& sequence, PagePool::HostPage::Access access, Use use) {
    for (size_t group = 0; group < layout_->groups().size(); ++group) {
      const PagePool& pool = *layout_->groups()[group].pool;
      for (int64_t number = 0; number * kSlots < kWritten; ++number) {
        for (size_t cache = 0; cache < pool.caches(); ++cache) {
          const PagePool::HostPage page(pool, cache, sequence.page(group, number * kSlots), access);
          for (size_t at = 0; at < static_cast<size_t>(pool.page_bytes(cache)); ++at) {
            use(page.data()[at], value_of(group * 5 + cache, number, at));
          }
        }
      }
    }
  }
  std::set<int32_t> pages_at(const std::vector<Sequence>& sequences, size_t group, int64_t at) {
    std::set<int32_t> ids;
    for (const Sequence& sequence : sequences) ids.insert(sequence.page(group, at));
    return ids;
  }

  static constexpr int64_t kWritten = 6;
  WatchedDevice device_{named_device(GetParam())};
  std::shared_ptr<const CacheLayout> layout_;
  StepTables::Lists lists_;
};

TEST_P(SharedPages, are_copied_in_one_launch_per_group) {
  constexpr size_t kForks = 9;
  std::vector<Sequence> sequences(1, Sequence(layout_));
  step({&sequences[0]}, kWritten);
  write(sequences[0]);
  EXPECT_EQ(device_.watch.launches, 0);
  for (size_t i = 0; i < kForks; ++i) sequences.push_back(Sequence(sequences[0]));
  std::vector<Sequence*> all;
  for (Sequence& sequence : sequences) all.push_back(&sequence);
  step(all, 1);
  EXPECT_EQ(device_.watch.launches, 2);
  for (size_t group = 0; group < 2; ++group) {
    EXPECT_EQ(pages_at(sequences, group, 0).size(), 1U);
    EXPECT_EQ(pages_at(sequences, group, kSlots).size(), kForks + 1);
    // One of those that shared a page keeps it.
    EXPECT_EQ(layout_->groups()[group].pool->live_pages(), static_cast<int64_t>(kForks) + 2);
  }
  for (const Sequence& sequence : sequences) expect_written(sequence);
  step(all, 1);
  EXPECT_EQ(device_.watch.launches, 2);
}

TEST_P(SharedPages, stay_with_a_sequence_that_does_not_run) {
  std::vector<Sequence> sequences(1, Sequence(layout_));
  step({&sequences[0]}, kWritten);
  write(sequences[0]);
  sequences.push_back(Sequence(sequences[0]));
  const int32_t before = sequences[0].page(0, kSlots);
  step({&sequences[1]}, 1);
  EXPECT_EQ(device_.watch.launches, 2);
  EXPECT_EQ(sequences[0].page(0, kSlots), before);
  EXPECT_NE(sequences[1].page(0, kSlots), before);
  for (const Sequence& sequence : sequences) expect_written(sequence);
}

TEST_P(SharedPages, stay_shared_where_a_step_gets_no_memory) {
  std::vector<Sequence> sequences(1, Sequence(layout_));
  step({&sequences[0]}, kWritten);
  write(sequences[0]);
  // More forks than the pages of the second group's slab.
  for (size_t i = 0; i < 64; ++i) sequences.push_back(Sequence(sequences[0]));
  std::vector<Sequence*> all;
  for (Sequence& sequence : sequences) all.push_back(&sequence);
  device_.watch.bytes_left = 0;
  EXPECT_TRUE(test::contains(error_of([&] { step(all, 1); }), "OutOfMemory"));
  EXPECT_EQ(device_.watch.launches, 0);
  for (size_t group = 0; group < 2; ++group) {
    EXPECT_EQ(pages_at(sequences, group, kSlots).size(), 1U);
    EXPECT_EQ(layout_->groups()[group].pool->live_pages(), 2);
  }
  for (const Sequence& sequence : sequences) {
    EXPECT_EQ(sequence.length(), kWritten);
    expect_written(sequence);
  }
  device_.watch.bytes_left = int64_t{1} << 30;
  step(all, 1);
  for (const Sequence& sequence : sequences) expect_written(sequence);
}

INSTANTIATE_TEST_SUITE_P(devices, SharedPages, testing::Values("host", "sim", "gpu_host"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace lathe::llm
