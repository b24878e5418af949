// SPDX-License-Identifier: MIT
#include "targets/gpu/device.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/error.h"

namespace lathe::gpu {
namespace {

// Parts of a range, which do not meet.
class Parts {
 public:
  // Bytes of [begin, end) that are in no part.
  int64_t missing(int64_t begin, int64_t end) const {
    int64_t out = end - begin;
    for (const auto& [first, last] : ends_) {
      out -= std::max<int64_t>(std::min(last, end) - std::max(first, begin), 0);
    }
    return out;
  }
  void add(int64_t begin, int64_t end) {
    std::erase_if(ends_, [&](const auto& part) {
      const bool meets = part.first <= end && begin <= part.second;
      if (meets) begin = std::min(begin, part.first);
      if (meets) end = std::max(end, part.second);
      return meets;
    });
    ends_[begin] = end;
  }
  void remove(int64_t begin, int64_t end) {
    add(begin, end);
    const auto whole = std::prev(ends_.upper_bound(begin));
    const auto [first, last] = *whole;
    ends_.erase(whole);
    if (first < begin) ends_[first] = begin;
    if (end < last) ends_[end] = last;
  }

 private:
  std::map<int64_t, int64_t> ends_;  // by begin
};

class GpuRange final : public AddressRange {
 public:
  GpuRange(const GpuDevice& device, int64_t bytes)
      : device_(device), range_(device.driver().reserve(bytes)) {}
  ~GpuRange() override { device_.give_back(bytes() - committed_.missing(0, bytes())); }
  GpuRange(const GpuRange&) = delete;
  GpuRange& operator=(const GpuRange&) = delete;
  void* base() const override { return range_->base(); }
  int64_t bytes() const override { return range_->bytes(); }
  void commit(int64_t offset, int64_t bytes) override {
    const int64_t added = committed_.missing(offset, offset + bytes);
    if (added == 0) return;
    device_.require(added);
    try {
      range_->commit(offset, bytes);
    } catch (...) {
      device_.give_back(added);
      throw;
    }
    committed_.add(offset, offset + bytes);
  }
  void release(int64_t offset, int64_t bytes) noexcept override {
    range_->release(offset, bytes);
    device_.give_back(bytes - committed_.missing(offset, offset + bytes));
    committed_.remove(offset, offset + bytes);
  }

 private:
  const GpuDevice& device_;
  std::unique_ptr<Reservation> range_;
  Parts committed_;
};

class GpuEvent final : public Event {
 public:
  explicit GpuEvent(Driver& driver) : driver_(driver), handle_(driver.make_event()) {}
  ~GpuEvent() override { driver_.destroy(handle_); }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  bool done() const override {
    if (stream_ != nullptr && !driver_.done(handle_)) return false;
    if (stream_ != nullptr) staging_->passed(mark_);
    return true;
  }
  void synchronize() override {
    if (stream_ == nullptr) return;
    // The host driver keeps failures with the stream.
    if (driver_.vendor() == Vendor::host) return stream_->synchronize();
    driver_.synchronize(handle_);
    staging_->passed(mark_);
  }
  void recorded(GpuStream& stream, std::shared_ptr<Staging> staging) {
    stream_ = &stream;
    staging_ = std::move(staging);
    mark_ = staging_->mark();
  }
  EventHandle handle() const { return handle_; }

 private:
  Driver& driver_;
  EventHandle handle_;
  GpuStream* stream_ = nullptr;
  std::shared_ptr<Staging> staging_;
  int64_t mark_ = 0;
};

class GpuCapture final : public Capture {
 public:
  GpuCapture(Driver& driver, GraphHandle graph) : driver_(driver), graph_(graph) {}
  ~GpuCapture() override { driver_.destroy(graph_); }
  GpuCapture(const GpuCapture&) = delete;
  GpuCapture& operator=(const GpuCapture&) = delete;
  GraphHandle graph() const { return graph_; }

 private:
  Driver& driver_;
  GraphHandle graph_;
};

}  // namespace

GpuDevice::GpuDevice(std::shared_ptr<Driver> driver, std::string name, int64_t memory_limit,
                     const std::string& cache)
    : driver_(std::move(driver)),
      name_(std::move(name)),
      limit_(memory_limit > 0 ? memory_limit : driver_->limits().memory_bytes),
      cache_(cache),
      pinned_(*driver_),
      libraries_(*driver_, cache_,
                 [this](std::function<void()> work) { code_.later(std::move(work)); }),
      code_(driver_, cache_) {}

void GpuDevice::require(int64_t bytes) const {
  if (used_.fetch_add(bytes) + bytes <= limit_) return;
  used_ -= bytes;
  fail(ErrorKind::out_of_memory, "{}: {} more bytes exceed the limit of {} bytes ({} in use): {}",
       name_, bytes, limit_, used_bytes(), advice(ErrorKind::out_of_memory));
}

// Throws what the driver states, which states more than "no memory".
void* GpuDevice::Memory::allocate(size_t bytes, size_t /*alignment: the driver's is 256*/) {
  device_.require(static_cast<int64_t>(bytes));
  try {
    return device_.driver().allocate(std::max<size_t>(bytes, 1));
  } catch (...) {
    device_.give_back(static_cast<int64_t>(bytes));
    throw;
  }
}

void GpuDevice::Memory::deallocate(void* pointer, size_t bytes) noexcept {
  if (pointer == nullptr) return;
  device_.driver().free(pointer);
  device_.give_back(static_cast<int64_t>(bytes));
}

std::unique_ptr<AddressRange> GpuDevice::reserve(int64_t bytes) const {
  return std::make_unique<GpuRange>(*this, bytes);
}

std::unique_ptr<Stream> GpuDevice::make_stream() const {
  return std::make_unique<GpuStream>(*this);
}

std::unique_ptr<Event> GpuDevice::make_event() const {
  return std::make_unique<GpuEvent>(*driver_);
}

void GpuDevice::expect_upload(int64_t bytes) const {
  constexpr int64_t kLarge = int64_t{256} << 20;
  if (bytes >= kLarge) pinned_.expect(UploadRing::kBuffers);
}

int64_t GpuDevice::free_bytes() const {
  return std::min(limit_ - used_bytes(), driver_->free_bytes());
}

GpuStream::GpuStream(const GpuDevice& device)
    : device_(device),
      handle_(device.driver().make_stream()),
      staging_(std::make_shared<Staging>(device)) {}

GpuStream::~GpuStream() {
  try {
    synchronize();
  } catch (const Error&) {
    // No caller waits for this failure.
  }
  device_.driver().destroy(handle_);
}

void* GpuStream::counters(int64_t count) {
  if (counters_.data() == nullptr) {
    Tensor made = make_tensor(device_, ElementType::u32, {count});
    fill(made.data(), std::byte{0}, static_cast<size_t>(bytes_for(made.type(), count)));
    counters_ = made;
  }
  check(count <= counters_.count(), ErrorKind::internal, "a stream has {} counters, not {}",
        counters_.count(), count);
  return counters_.data();
}

void GpuStream::copy(void* to, const void* from, size_t bytes) {
  latest_ = Latest::other;
  Driver& driver = device_.driver();
  if (!capturing_ && bytes <= Staging::kMostBytes) {
    const bool to_device = driver.is_on_device(to);
    const bool from_device = driver.is_on_device(from);
    if (to_device || from_device) {
      const Staging::Way way = !to_device     ? Staging::Way::to_host
                               : !from_device ? Staging::Way::to_device
                                              : Staging::Way::on_device;
      return staging_->copy(handle_, to, from, bytes, way);
    }
  }
  if (!capturing_) staging_->settle(handle_, to, from, bytes);
  driver.copy(handle(), to, from, bytes);
}

void GpuStream::upload(std::span<const BlockCopy> blocks, ThreadPool* pool) {
  latest_ = Latest::other;
  if (uploads_ == nullptr)
    uploads_ = std::make_unique<UploadRing>(device_.driver(), device_.pinned());
  try {
    uploads_->copy(handle(), blocks, pool);
  } catch (...) {
    // Some parts of a failed copy may be under way.
    try {
      device_.driver().synchronize(handle_);
    } catch (const Error&) {
      // The first failure counts.
    }
    throw;
  }
}

void* GpuStream::native_handle() const { return handle().native; }

void GpuStream::fill(void* to, std::byte value, size_t bytes) {
  latest_ = Latest::other;
  device_.driver().fill(handle(), to, std::to_integer<uint8_t>(value), bytes);
}

void GpuStream::record(Event& event) {
  auto& point = static_cast<GpuEvent&>(event);
  device_.driver().record(handle(), point.handle());
  point.recorded(*this, staging_);
}

void GpuStream::wait(Event& event) {
  latest_ = Latest::other;
  device_.driver().wait(handle(), static_cast<GpuEvent&>(event).handle());
}

void GpuStream::synchronize() {
  try {
    device_.driver().synchronize(handle());
  } catch (...) {
    staging_->drop();
    throw;
  }
  staging_->passed(staging_->mark());
}

void GpuStream::begin_capture() {
  latest_ = Latest::other;
  device_.driver().begin_capture(handle());
  capturing_ = true;
}

std::unique_ptr<Capture> GpuStream::end_capture() {
  latest_ = Latest::other;
  capturing_ = false;
  Driver& driver = device_.driver();
  return std::make_unique<GpuCapture>(driver, driver.end_capture(handle_));
}

void GpuStream::replay(const Capture& capture) {
  latest_ = Latest::other;
  device_.driver().launch(handle(), static_cast<const GpuCapture&>(capture).graph());
}

}  // namespace lathe::gpu
