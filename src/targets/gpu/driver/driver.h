// SPDX-License-Identifier: MIT
// What Lathe needs of a vendor's driver: memory, streams, events, graphs, modules, launches.
// Bodies: CUDA and HIP, opened at run time, and `host`, which runs device code on the CPU for
// tests.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lathe::gpu {

enum class Vendor : uint8_t { cuda, hip, host };
std::string_view to_string(Vendor vendor);

// What a device has.
struct DeviceLimits {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  std::string architecture;  // of code: "sm_90", "gfx942", "host"
  std::string driver;        // version: "13.0"
  int multiprocessors = 1;
  int wave = 32;  // threads that run in lockstep
  int64_t memory_bytes = 0;
  int64_t shared_bytes = 48 * 1024;  // per block
  int cluster = 1;                   // blocks that may share their memory
};

// Handles of a driver. Null: none.
struct StreamHandle {
  void* native = nullptr;
};
struct EventHandle {
  void* native = nullptr;
};
struct GraphHandle {
  void* native = nullptr;
};
struct ModuleHandle {
  void* native = nullptr;
};
struct FunctionHandle {
  void* native = nullptr;
};

struct KernelLaunch {
  FunctionHandle function;
  std::array<uint32_t, 3> grid{1, 1, 1};
  uint32_t threads = 1;                  // of a block
  std::span<const std::byte> arguments;  // one structure, passed by value
  // May start before the launch before it on the stream ends, where cards can: its kernel waits for
  // that one itself (`wait_for_previous` in kernels/prelude.gpu).
  bool overlaps = false;
};

// Reserved addresses, with memory in parts of them.
class Reservation {
 public:
  virtual ~Reservation() = default;
  virtual void* base() const = 0;
  virtual int64_t bytes() const = 0;
  virtual void commit(int64_t offset, int64_t bytes) = 0;
  virtual void release(int64_t offset, int64_t bytes) noexcept = 0;
};

// What to do about a failed call.
std::string_view advice(ErrorKind kind);

// One device. All calls are thread-safe; those on one stream come from one thread at a time. A call
// that fails throws an Error of kind Device, OutOfMemory if memory is short; its message states
// which call failed, and why.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual Vendor vendor() const = 0;
  virtual const DeviceLimits& limits() const = 0;
  // True if the vendor has libraries for it.
  virtual bool has_libraries() const { return vendor() == Vendor::cuda; }
  // Makes the device the calling thread's, for libraries that are called directly.
  virtual void make_current() {}

  void* allocate(size_t bytes);
  void free(void* pointer) noexcept { do_free(pointer); }
  void* allocate_pinned(size_t bytes);  // of the host
  void free_pinned(void* pointer) noexcept { do_free_pinned(pointer); }
  std::unique_ptr<Reservation> reserve(int64_t bytes);

  StreamHandle make_stream();
  void destroy(StreamHandle stream) noexcept { do_destroy(stream); }
  void synchronize(StreamHandle stream);
  void copy(StreamHandle stream, void* to, const void* from, size_t bytes);
  void fill(StreamHandle stream, void* to, uint8_t value, size_t bytes);

  EventHandle make_event();
  void destroy(EventHandle event) noexcept { do_destroy(event); }
  void record(StreamHandle stream, EventHandle event);
  void wait(StreamHandle stream, EventHandle event);
  void synchronize(EventHandle event);
  bool done(EventHandle event);

  // Work enqueued in between becomes a graph.
  void begin_capture(StreamHandle stream);
  GraphHandle end_capture(StreamHandle stream);
  void launch(StreamHandle stream, GraphHandle graph);
  void destroy(GraphHandle graph) noexcept { do_destroy(graph); }

  ModuleHandle load(std::span<const std::byte> image);
  void unload(ModuleHandle module) noexcept { do_unload(module); }
  FunctionHandle function(ModuleHandle module, const std::string& name);
  void launch(StreamHandle stream, const KernelLaunch& launch);

  int64_t free_bytes();  // of memory; 0: unknown
  // True for memory of the device, also that of other owners; false for memory of the host.
  virtual bool is_on_device(const void* pointer) const = 0;
  // What kernels see memory of allocate_pinned() as.
  virtual void* pinned_on_device(void* pointer) const { return pointer; }
  // Bytes that kernels move between memory of the host and the device's, for those who count.
  virtual void add_crossed(int64_t /*bytes*/) {}

  // For tests: call number `call` from now (1: the next) fails, once; 0: none does.
  void fail_at(int64_t call) { fail_at_ = call; }
  int64_t calls() const { return calls_; }  // so far
  struct Counts {
    int64_t copies = 0;    // and fills
    int64_t launches = 0;  // of kernels on their own
    int64_t graphs = 0;    // launches of graphs
    int64_t waits = 0;     // of the host
  };
  Counts counts() const { return {copies_, launches_, graphs_, waits_}; }  // so far

 protected:
  virtual void* do_allocate(size_t bytes) = 0;
  virtual void do_free(void* pointer) noexcept = 0;
  virtual void* do_allocate_pinned(size_t bytes) = 0;
  virtual void do_free_pinned(void* pointer) noexcept = 0;
  virtual std::unique_ptr<Reservation> do_reserve(int64_t bytes) = 0;
  virtual StreamHandle do_make_stream() = 0;
  virtual void do_destroy(StreamHandle stream) noexcept = 0;
  virtual void do_synchronize(StreamHandle stream) = 0;
  virtual void do_copy(StreamHandle stream, void* to, const void* from, size_t bytes) = 0;
  virtual void do_fill(StreamHandle stream, void* to, uint8_t value, size_t bytes) = 0;
  virtual EventHandle do_make_event() = 0;
  virtual void do_destroy(EventHandle event) noexcept = 0;
  virtual void do_record(StreamHandle stream, EventHandle event) = 0;
  virtual void do_wait(StreamHandle stream, EventHandle event) = 0;
  virtual void do_synchronize(EventHandle event) = 0;
  virtual bool do_done(EventHandle event) = 0;
  virtual void do_begin_capture(StreamHandle stream) = 0;
  virtual GraphHandle do_end_capture(StreamHandle stream) = 0;
  virtual void do_launch(StreamHandle stream, GraphHandle graph) = 0;
  virtual void do_destroy(GraphHandle graph) noexcept = 0;
  virtual ModuleHandle do_load(std::span<const std::byte> image) = 0;
  virtual void do_unload(ModuleHandle module) noexcept = 0;
  virtual FunctionHandle do_function(ModuleHandle module, const std::string& name) = 0;
  virtual void do_launch(StreamHandle stream, const KernelLaunch& launch) = 0;
  virtual int64_t do_free_bytes() = 0;

  // Counts a call; throws if it is the one that shall fail. Commits of reservations too.
  void attempt(std::string_view call);

 private:
  std::atomic<int64_t> fail_at_{0};
  std::atomic<int64_t> calls_{0};
  std::atomic<int64_t> copies_{0};
  std::atomic<int64_t> launches_{0};
  std::atomic<int64_t> graphs_{0};
  std::atomic<int64_t> waits_{0};
};

// The driver of a vendor's device; null if there is none, and then `reason` states why and what to
// do.
std::shared_ptr<Driver> open_native_driver(Vendor vendor, int device, std::string* reason);

}  // namespace lathe::gpu
