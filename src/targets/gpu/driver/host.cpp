// SPDX-License-Identifier: MIT
#include "targets/gpu/driver/host.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/object_pool.h"
#include "base/os_library.h"
#include "base/os_memory.h"
#include "targets/gpu/driver/host_block.h"
#include "targets/sim/memory.h"

namespace lathe::gpu {
namespace {

// Work runs when it is enqueued, unless the stream captures it. After a failure, work is skipped
// until the host has waited.
struct HostStream {
  std::exception_ptr failure;
  bool capturing = false;
  std::vector<std::function<void()>> captured;
};
struct HostEvent {};
struct HostGraph {
  std::vector<std::function<void()>> works;
};
struct HostModule {
  std::shared_ptr<const DynamicLibrary> library;
};

class HostDriver final : public Driver {
 public:
  explicit HostDriver(const HostDriverOptions& options) : options_(options) {
    limits_.name = "host";
    limits_.architecture = options.count ? "host counted" : "host";
    limits_.driver = "1";
    limits_.multiprocessors = options.multiprocessors;
    limits_.wave = options.wave;
    limits_.memory_bytes = options.memory_bytes;
  }
  Vendor vendor() const override { return Vendor::host; }
  const DeviceLimits& limits() const override { return limits_; }
  bool has_libraries() const override { return options_.libraries; }
  bool is_on_device(const void* pointer) const override { return sim::is_shifted(pointer); }
  void* pinned_on_device(void* pointer) const override {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(pointer) | sim::kShift);
  }
  void add_crossed(int64_t bytes) override { crossed_ += bytes; }
  int64_t live() const { return objects_ + memory_.live_blocks(); }
  int64_t crossed() const { return crossed_; }
  std::map<std::string, Traffic> traffic() const {
    const std::lock_guard lock(traffic_mutex_);
    return traffic_;
  }
  void clear_traffic() {
    const std::lock_guard lock(traffic_mutex_);
    traffic_.clear();
  }

 protected:
  void* do_allocate(size_t bytes) override {
    const std::lock_guard lock(mutex_);
    void* pointer = memory_.allocate(std::max<size_t>(bytes, 1), kAlignment);
    check(pointer != nullptr, ErrorKind::out_of_memory, "host: allocate of {} bytes failed", bytes);
    sizes_.emplace_back(pointer, std::max<size_t>(bytes, 1));
    return pointer;
  }
  void do_free(void* pointer) noexcept override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(sizes_, pointer, &std::pair<void*, size_t>::first);
    if (at == sizes_.end()) return;
    memory_.deallocate(pointer, at->second);
    *at = sizes_.back();
    sizes_.pop_back();
  }
  void* do_allocate_pinned(size_t bytes) override {
    const size_t size = std::max<size_t>(bytes, 1);
    void* pointer = host_allocator().allocate(size, kAlignment);
    if (pointer != nullptr) memory_.add(pointer, size);
    return pointer;
  }
  void do_free_pinned(void* pointer) noexcept override {
    if (pointer == nullptr) return;
    memory_.remove(pinned_on_device(pointer));
    host_allocator().deallocate(pointer, 0);
  }
  std::unique_ptr<Reservation> do_reserve(int64_t bytes) override;
  StreamHandle do_make_stream() override { return {made(new HostStream)}; }
  void do_destroy(StreamHandle stream) noexcept override { unmake<HostStream>(stream.native); }
  void do_synchronize(StreamHandle handle) override {
    auto& stream = *static_cast<HostStream*>(handle.native);
    if (stream.failure != nullptr) std::rethrow_exception(std::exchange(stream.failure, nullptr));
  }
  void do_copy(StreamHandle stream, void* to, const void* from, size_t bytes) override {
    enqueue(stream, [this, to, from, bytes] {
      if (is_on_device(to) != is_on_device(from)) crossed_ += static_cast<int64_t>(bytes);
      std::memmove(memory_.real(to, bytes), memory_.real(from, bytes), bytes);
    });
  }
  void do_fill(StreamHandle stream, void* to, uint8_t value, size_t bytes) override {
    enqueue(stream, [this, to, value, bytes] {
      check(sim::is_shifted(to), ErrorKind::device, "host: fill of {} bytes of the host", bytes);
      std::memset(memory_.real(to, bytes), value, bytes);
    });
  }
  EventHandle do_make_event() override { return {made(new HostEvent)}; }
  void do_destroy(EventHandle event) noexcept override { unmake<HostEvent>(event.native); }
  void do_record(StreamHandle, EventHandle) override {}
  void do_wait(StreamHandle, EventHandle) override {}
  void do_synchronize(EventHandle) override {}
  bool do_done(EventHandle) override { return true; }
  void do_begin_capture(StreamHandle handle) override {
    auto& stream = *static_cast<HostStream*>(handle.native);
    check(!stream.capturing, ErrorKind::device, "{}: a capture is under way", "host");
    stream.capturing = true;
  }
  GraphHandle do_end_capture(StreamHandle handle) override {
    auto& stream = *static_cast<HostStream*>(handle.native);
    check(std::exchange(stream.capturing, false), ErrorKind::device, "{}: no capture is under way",
          "host");
    return {made(new HostGraph{std::exchange(stream.captured, {})})};
  }
  void do_launch(StreamHandle stream, GraphHandle graph) override {
    for (const auto& work : static_cast<HostGraph*>(graph.native)->works) enqueue(stream, work);
  }
  void do_destroy(GraphHandle graph) noexcept override { unmake<HostGraph>(graph.native); }
  ModuleHandle do_load(std::span<const std::byte> image) override {
    std::string reason;
    auto library = DynamicLibrary::open(image, &reason);
    check(library != nullptr, ErrorKind::device, "host: a module of {} bytes: {}", image.size(),
          reason);
    auto* calls = static_cast<const HostCalls**>(library->symbol("lathe_calls"));
    check(calls != nullptr, ErrorKind::device, "{}: the module has no 'lathe_calls'", "host");
    *calls = &host_calls();
    return {made(new HostModule{std::move(library)})};
  }
  void do_unload(ModuleHandle module) noexcept override { unmake<HostModule>(module.native); }
  FunctionHandle do_function(ModuleHandle module, const std::string& name) override {
    void* symbol = static_cast<HostModule*>(module.native)->library->symbol(name.c_str());
    check(symbol != nullptr, ErrorKind::device, "host: the module has no kernel '{}'", name);
    if (options_.count) {
      const std::lock_guard lock(traffic_mutex_);
      names_[symbol] = name;
    }
    return {symbol};
  }
  void do_launch(StreamHandle stream, const KernelLaunch& launch) override {
    const std::vector<std::byte> arguments(launch.arguments.begin(), launch.arguments.end());
    for (const uint32_t extent : launch.grid) {
      check(extent > 0 && launch.threads > 0 && launch.threads <= 1024, ErrorKind::device,
            "host: launch of {} threads, grid [{}]", launch.threads, fmt::join(launch.grid, ", "));
    }
    enqueue(stream, [this, arguments, grid = launch.grid, threads = launch.threads,
                     kernel = reinterpret_cast<HostKernel>(launch.function.native)] {
      std::unique_ptr<BlockRunner> runner = runners_.acquire();
      if (runner == nullptr) runner = std::make_unique<BlockRunner>(options_);
      runner->run(kernel, arguments.data(), grid, threads);
      if (options_.count) {
        const std::lock_guard lock(traffic_mutex_);
        traffic_[names_[reinterpret_cast<void*>(kernel)]] += runner->traffic();
      }
      runners_.release(std::move(runner));
    });
  }
  int64_t do_free_bytes() override { return limits_.memory_bytes; }

 private:
  friend class HostReservation;
  static constexpr size_t kAlignment = 256;

  template <class T>
  void* made(T* object) {
    ++objects_;
    return object;
  }
  template <class T>
  void unmake(void* object) noexcept {
    delete static_cast<T*>(object);
    --objects_;
  }

  template <class F>
  void enqueue(StreamHandle handle, F&& work) {
    auto& stream = *static_cast<HostStream*>(handle.native);
    if (stream.capturing) {
      stream.captured.emplace_back(std::forward<F>(work));
      return;
    }
    if (stream.failure != nullptr) return;
    try {
      work();
    } catch (...) {
      stream.failure = std::current_exception();
    }
  }

  HostDriverOptions options_;
  DeviceLimits limits_;
  mutable sim::Memory memory_;
  std::mutex mutex_;
  std::vector<std::pair<void*, size_t>> sizes_;  // of allocate()
  std::atomic<int64_t> objects_{0};
  std::atomic<int64_t> crossed_{0};
  ObjectPool<BlockRunner> runners_;
  mutable std::mutex traffic_mutex_;
  std::map<void*, std::string> names_;  // of kernels
  std::map<std::string, Traffic> traffic_;
};

// One live block that grows from the base.
class HostReservation final : public Reservation {
 public:
  HostReservation(HostDriver& driver, int64_t bytes)
      : driver_(driver), bytes_(std::max<int64_t>(bytes, 1)) {
    base_ = static_cast<std::byte*>(reserve_pages(static_cast<size_t>(bytes_)));
    check(base_ != nullptr, ErrorKind::out_of_memory, "host: reserve of {} bytes failed", bytes);
    shifted_ = driver_.memory_.add(base_, 0);
  }
  ~HostReservation() override {
    driver_.memory_.remove(shifted_);
    release_pages(base_, static_cast<size_t>(bytes_));
  }
  HostReservation(const HostReservation&) = delete;
  HostReservation& operator=(const HostReservation&) = delete;
  void* base() const override { return shifted_; }
  int64_t bytes() const override { return bytes_; }
  void commit(int64_t offset, int64_t bytes) override {
    check(offset >= 0 && bytes >= 0 && bytes <= bytes_ - offset, ErrorKind::out_of_memory,
          "{} bytes at {} exceed the {} reserved", bytes, offset, bytes_);
    driver_.attempt("commit");
    if (offset + bytes <= committed_) return;
    const int64_t begin = std::max(committed_, offset);
    std::memset(base_ + begin, 0xff, static_cast<size_t>(offset + bytes - begin));
    committed_ = offset + bytes;
    driver_.memory_.add(base_, static_cast<size_t>(committed_));
  }
  void release(int64_t offset, int64_t bytes) noexcept override {
    std::memset(base_ + offset, 0xff, static_cast<size_t>(bytes));
  }

 private:
  HostDriver& driver_;
  int64_t bytes_;
  std::byte* base_ = nullptr;
  void* shifted_ = nullptr;
  int64_t committed_ = 0;
};

std::unique_ptr<Reservation> HostDriver::do_reserve(int64_t bytes) {
  return std::make_unique<HostReservation>(*this, bytes);
}

}  // namespace

std::shared_ptr<Driver> make_host_driver(const HostDriverOptions& options) {
#if !defined(__x86_64__)
  fail(ErrorKind::unsupported, "gpu:host runs on x86-64 alone (waves of {})", options.wave);
#endif
  check(options.wave == 32 || options.wave == 64, ErrorKind::invalid_argument,
        "waves of {} threads, expected 32 or 64", options.wave);
  return std::make_shared<HostDriver>(options);
}

int64_t live_objects(const Driver& host) { return static_cast<const HostDriver&>(host).live(); }

int64_t crossed_bytes(const Driver& host) { return static_cast<const HostDriver&>(host).crossed(); }

std::map<std::string, Traffic> traffic(const Driver& host) {
  return static_cast<const HostDriver&>(host).traffic();
}

void clear_traffic(Driver& host) { static_cast<HostDriver&>(host).clear_traffic(); }

}  // namespace lathe::gpu
