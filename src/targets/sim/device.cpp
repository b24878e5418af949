// SPDX-License-Identifier: MIT
#include "targets/sim/device.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/os_memory.h"

namespace lathe::sim {
namespace {

// One live block that grows from the base.
class SimRange final : public AddressRange {
 public:
  SimRange(Memory& memory, int64_t bytes)
      : memory_(memory),
        bytes_(std::max<int64_t>(bytes, 1)),
        base_(static_cast<std::byte*>(reserve_pages(static_cast<size_t>(bytes_)))) {
    check(base_ != nullptr, ErrorKind::out_of_memory, "sim: cannot reserve {} bytes of addresses",
          bytes_);
    shifted_ = memory_.add(base_, 0);
  }
  ~SimRange() override {
    memory_.remove(shifted_);
    release_pages(base_, static_cast<size_t>(bytes_));
  }
  SimRange(const SimRange&) = delete;
  SimRange& operator=(const SimRange&) = delete;
  void* base() const override { return shifted_; }
  int64_t bytes() const override { return bytes_; }
  // Grows one live block from the base: what lies before `offset` counts as committed.
  void commit(int64_t offset, int64_t bytes) override {
    check(offset >= 0 && bytes >= 0 && bytes <= bytes_ - offset, ErrorKind::out_of_memory,
          "sim: {} bytes at {} exceed the {} reserved", bytes, offset, bytes_);
    if (offset + bytes <= committed_) return;
    std::memset(base_ + std::max(committed_, offset), 0xff,
                static_cast<size_t>(offset + bytes - std::max(committed_, offset)));
    committed_ = offset + bytes;
    memory_.add(base_, static_cast<size_t>(committed_));
  }
  void release(int64_t offset, int64_t bytes) noexcept override {
    std::memset(base_ + offset, 0xff, static_cast<size_t>(bytes));
  }

 private:
  Memory& memory_;
  int64_t bytes_;
  std::byte* base_;
  void* shifted_ = nullptr;
  int64_t committed_ = 0;
};

class SimEvent final : public Event {
 public:
  bool done() const override {
    const std::lock_guard lock(mutex_);
    return pending_ == 0;
  }
  void synchronize() override;

  void recorded(SimStream* stream) {
    const std::lock_guard lock(mutex_);
    stream_ = stream;
    ++pending_;
  }
  void passed() {
    {
      const std::lock_guard lock(mutex_);
      --pending_;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pending_ == 0; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t pending_ = 0;
  SimStream* stream_ = nullptr;
};

using Works = std::vector<std::function<void()>>;

class SimCapture final : public Capture {
 public:
  Works works;
};

class ThreadStream final : public SimStream {
 public:
  ThreadStream(const SimDevice& device, uint64_t seed)
      : device_(device), random_(seed), thread_([this] { serve(); }) {}
  ~ThreadStream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ThreadStream(const ThreadStream&) = delete;
  ThreadStream& operator=(const ThreadStream&) = delete;

  const Device& device() const override { return device_; }

  void copy(void* to, const void* from, size_t bytes) override {
    enqueue([this, to, from, bytes] {
      const Memory& memory = device_.memory();
      if (bytes > 0) std::memcpy(memory.real(to, bytes), memory.real(from, bytes), bytes);
    });
  }
  void copy_blocks(std::span<const BlockCopy> blocks) override {
    check(!capturing_, ErrorKind::unsupported, "{}: copies of blocks are not captured", "sim");
    enqueue([this, blocks] {
      const Memory& memory = device_.memory();
      for (const BlockCopy& block : blocks) {
        check(is_shifted(block.to) && is_shifted(block.from), ErrorKind::device,
              "{}: a block to copy lies on the host", "sim");
        std::memcpy(memory.real(block.to, block.bytes), memory.real(block.from, block.bytes),
                    block.bytes);
      }
    });
  }
  void fill(void* to, std::byte value, size_t bytes) override {
    enqueue([this, to, value, bytes] {
      std::memset(device_.memory().real(to, bytes), std::to_integer<int>(value), bytes);
    });
  }
  void record(Event& event) override {
    auto& point = static_cast<SimEvent&>(event);
    check(!capturing_, ErrorKind::unsupported, "{}: events are not captured", "sim");
    point.recorded(this);
    push({[&point] { point.passed(); }, true});
  }
  void wait(Event& event) override {
    auto& point = static_cast<SimEvent&>(event);
    enqueue([&point] { point.wait(); });
  }
  void synchronize() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  void rethrow() {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }
  void begin_capture() override {
    check(!capturing_, ErrorKind::internal, "{}: a capture is under way", "sim");
    capturing_ = true;
    captured_.clear();
  }
  std::unique_ptr<Capture> end_capture() override {
    check(capturing_, ErrorKind::internal, "{}: no capture is under way", "sim");
    capturing_ = false;
    auto capture = std::make_unique<SimCapture>();
    capture->works = std::move(captured_);
    return capture;
  }
  void replay(const Capture& capture) override {
    for (const auto& work : static_cast<const SimCapture&>(capture).works) enqueue(work);
  }
  void enqueue(std::function<void()> work) override {
    if (capturing_) {
      captured_.push_back(std::move(work));
    } else {
      push({std::move(work), false});
    }
  }

 private:
  struct Item {
    std::function<void()> run;
    bool always = false;  // also after a failure
  };

  void push(Item item) {
    {
      const std::lock_guard lock(mutex_);
      pending_.push_back(std::move(item));
      ++count_;
    }
    changed_.notify_all();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !pending_.empty(); });
      if (pending_.empty()) return;
      const Item item = std::move(pending_.front());
      pending_.pop_front();
      const bool skip = failure_ != nullptr && !item.always;
      // Mostly at once, at times late: host and stream meet in many orders.
      const auto delay = random_() % 4 == 0 ? std::chrono::microseconds(random_() % 60)
                                            : std::chrono::microseconds(0);
      lock.unlock();
      std::exception_ptr failure;
      if (!skip) {
        if (delay.count() > 0) std::this_thread::sleep_for(delay);
        try {
          item.run();
        } catch (...) {
          failure = std::current_exception();
        }
      }
      lock.lock();
      if (failure != nullptr && failure_ == nullptr) failure_ = failure;
      if (--count_ == 0) changed_.notify_all();
    }
  }

  const SimDevice& device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> pending_;
  size_t count_ = 0;  // waiting or running
  bool stop_ = false;
  bool capturing_ = false;
  Works captured_;
  std::exception_ptr failure_;
  std::mt19937_64 random_;
  std::thread thread_;
};

void SimEvent::synchronize() {
  wait();
  SimStream* stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
  }
  if (stream != nullptr) static_cast<ThreadStream*>(stream)->rethrow();
}

}  // namespace

std::unique_ptr<AddressRange> SimDevice::reserve(int64_t bytes) const {
  return std::make_unique<SimRange>(memory_, bytes);
}

std::unique_ptr<Stream> SimDevice::make_stream() const {
  return std::make_unique<ThreadStream>(*this, seed_);
}

std::unique_ptr<Event> SimDevice::make_event() const { return std::make_unique<SimEvent>(); }

}  // namespace lathe::sim
