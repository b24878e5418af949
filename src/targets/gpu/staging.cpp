// SPDX-License-Identifier: MIT
#include "targets/gpu/staging.h"

#include <algorithm>
#include <cstring>

#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

constexpr int64_t kAlignment = 16;

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto* x = static_cast<const std::byte*>(a);
  const auto* y = static_cast<const std::byte*>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

Staging::~Staging() {
  device_.driver().free_pinned(ring_);
  device_.driver().free_pinned(report_);
}

void* Staging::report() {
  const std::lock_guard lock(mutex_);
  Driver& driver = device_.driver();
  if (report_ == nullptr) {
    report_ = static_cast<std::byte*>(driver.allocate_pinned(sizeof(Refused)));
    check(report_ != nullptr, ErrorKind::out_of_memory, "no {} bytes of pinned memory",
          sizeof(Refused));
    std::memset(report_, 0, sizeof(Refused));
  }
  return driver.pinned_on_device(report_);
}

// Whether the order of a copy and those before it matters.
bool Staging::conflicts(const void* to, const void* from, size_t bytes) const {
  return blocks_.size() == kMostBlocks || std::ranges::any_of(blocks_, [&](const Block& block) {
           const auto size = static_cast<size_t>(block.bytes);
           return overlap(to, bytes, block.to, size) || overlap(to, bytes, block.from, size) ||
                  overlap(from, bytes, block.to, size);
         });
}

void Staging::copy(StreamHandle stream, void* to, const void* from, size_t bytes, Way way) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  if (conflicts(to, from, bytes)) flush_blocks(stream);
  const auto size = static_cast<int64_t>(bytes);
  if (way == Way::on_device) return blocks_.push_back({to, from, size});
  // The host's memory on either side may still be expected.
  const bool to_device = way == Way::to_device;
  const void* own = to_device ? from : to;
  const bool expected = std::ranges::any_of(arrivals_, [&](const Arrival& arrival) {
    return overlap(own, bytes, arrival.to, arrival.bytes);
  });
  if (expected) wait(stream);
  std::byte* place = take(stream, bytes);
  Driver& driver = device_.driver();
  driver.add_crossed(size);
  if (to_device) {
    std::memcpy(place, from, bytes);
    blocks_.push_back({to, driver.pinned_on_device(place), size});
  } else {
    blocks_.push_back({driver.pinned_on_device(place), from, size});
    arrivals_.push_back({taken_, to, place, bytes});
  }
}

// The next bytes of the ring.
std::byte* Staging::take(StreamHandle stream, size_t bytes) {
  if (ring_ == nullptr) {
    ring_ = static_cast<std::byte*>(device_.driver().allocate_pinned(kBytes));
    if (ring_ == nullptr) fail(ErrorKind::out_of_memory, "no {} bytes of pinned memory", kBytes);
  }
  const int64_t size = (static_cast<int64_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t rest = kBytes - taken_ % kBytes;
  const int64_t skipped = size > rest ? rest : 0;
  if (taken_ + skipped + size - passed_ > kBytes) wait(stream);
  taken_ += skipped + size;
  return ring_ + (taken_ - size) % kBytes;
}

void Staging::settle(StreamHandle stream, const void* to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool expected = std::ranges::any_of(arrivals_, [&](const Arrival& arrival) {
    return overlap(to, bytes, arrival.to, arrival.bytes) ||
           overlap(from, bytes, arrival.to, arrival.bytes);
  });
  if (expected) wait(stream);
}

void Staging::flush(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  flush_blocks(stream);
}

void Staging::flush_blocks(StreamHandle stream) {
  if (blocks_.empty()) return;
  Driver& driver = device_.driver();
  if (blocks_.size() == 1) {
    const Block& block = blocks_.front();
    driver.copy(stream, block.to, block.from, static_cast<size_t>(block.bytes));
    return blocks_.clear();
  }
  if (code_ == nullptr) {
    code_ = device_.code().get({"staged_copies", std::string(kernel_text("staged_copies.gpu"))});
  }
  Arguments arguments;
  int64_t most = 0;
  for (size_t i = 0; i < kMostBlocks; ++i) {
    const Block block = i < blocks_.size() ? blocks_[i] : Block{nullptr, nullptr, 0};
    arguments.add(block.to);
    arguments.add(block.from);
    arguments.add(block.bytes);
    most = std::max(most, block.bytes);
  }
  constexpr int64_t kPart = kThreads * 16;  // each thread moves 16 bytes of a part
  const auto parts = static_cast<uint32_t>(std::max<int64_t>((most + kPart - 1) / kPart, 1));
  const auto count = static_cast<uint32_t>(blocks_.size());
  driver.launch(stream, {code_->function(), {count, parts, 1}, kThreads, arguments.bytes()});
  blocks_.clear();
}

void Staging::wait(StreamHandle stream) {
  flush_blocks(stream);
  device_.driver().synchronize(stream);
  arrive(taken_);
}

int64_t Staging::mark() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

void Staging::passed(int64_t mark) {
  const std::lock_guard lock(mutex_);
  arrive(mark);
  if (report_ == nullptr) return;
  Refused refused{};
  std::memcpy(&refused, report_, sizeof refused);
  if (refused == Refused::nothing) return;
  std::memset(report_, 0, sizeof refused);
  fail(ErrorKind::invalid_argument, "{}: seqlens_k implies more keys than a cache has room for",
       device_.name());
}

void Staging::arrive(int64_t mark) {
  passed_ = std::max(passed_, mark);
  auto next = arrivals_.begin();
  for (; next != arrivals_.end() && next->mark <= mark; ++next) {
    std::memcpy(next->to, next->from, next->bytes);
  }
  arrivals_.erase(arrivals_.begin(), next);
}

void Staging::drop() {
  const std::lock_guard lock(mutex_);
  blocks_.clear();
  arrivals_.clear();
  passed_ = taken_;
}

}  // namespace lathe::gpu
