// SPDX-License-Identifier: MIT
// The drivers of NVIDIA and AMD, opened at run time: one body over a table of functions.
#include <algorithm>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "base/file_map.h"
#include "base/os_library.h"
#include "targets/gpu/driver/driver.h"
#include "targets/gpu/driver/native_types.h"
#include "targets/gpu/libraries/vendor_library.h"

namespace lathe::gpu {
namespace {

using namespace native;

struct Functions {
#define LATHE_FUNCTION(name, type, cuda, hip) std::add_pointer_t<type> name = nullptr;
#define LATHE_CUDA_FUNCTION(name, type, cuda) std::add_pointer_t<type> name = nullptr;
#define LATHE_HIP_FUNCTION(name, type, hip) std::add_pointer_t<type> name = nullptr;
#include "targets/gpu/driver/native_functions.inc"
#undef LATHE_FUNCTION
#undef LATHE_CUDA_FUNCTION
#undef LATHE_HIP_FUNCTION
};

bool load(const DynamicLibrary& library, bool is_cuda, Functions& out, std::string* reason) {
  const auto find = [&](const char* name, auto& function) {
    if (find_function(library, name, function, reason)) return true;
    *reason += is_cuda ? ": update the driver (470 or newer)" : ": update the driver";
    return false;
  };
  bool complete = true;
#define LATHE_FUNCTION(name, type, cuda, hip) \
  complete = complete && find(is_cuda ? #cuda : #hip, out.name);
#define LATHE_CUDA_FUNCTION(name, type, cuda) \
  complete = complete && (!is_cuda || find(#cuda, out.name));
#define LATHE_CUDA_OPTIONAL(name, type, cuda) \
  if (is_cuda) find_function(library, #cuda, out.name, nullptr);
#define LATHE_HIP_FUNCTION(name, type, hip) \
  complete = complete && (is_cuda || find(#hip, out.name));
#include "targets/gpu/driver/native_functions.inc"
#undef LATHE_FUNCTION
#undef LATHE_CUDA_FUNCTION
#undef LATHE_HIP_FUNCTION
  return complete;
}

// The architecture of AMD's device number `device`, which the kernel's driver states:
// 90402 is gfx942.
std::string amd_architecture(int device) {
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes";
  std::error_code error;
  std::vector<int> numbers;
  for (const auto& entry : std::filesystem::directory_iterator(nodes, error)) {
    numbers.push_back(std::atoi(entry.path().filename().c_str()));
  }
  std::ranges::sort(numbers);
  for (const int number : numbers) {
    const std::string path = fmt::format("{}/{}/properties", nodes, number);
    if (!file_exists(path)) continue;
    const std::shared_ptr<const FileMap> file = FileMap::open(path);
    const size_t at = file->text().find("gfx_target_version ");
    if (at == std::string_view::npos) continue;
    const int version = std::atoi(file->text().data() + at + 19);
    if (version == 0 || device-- != 0) continue;
    return fmt::format("gfx{}{:x}{:x}", version / 10000, version / 100 % 100, version % 100);
  }
  return "";
}

class NativeDriver final : public Driver {
 public:
  NativeDriver(Vendor vendor, std::shared_ptr<const DynamicLibrary> library,
               const Functions& functions, int device)
      : vendor_(vendor), library_(std::move(library)), f_(functions), device_(device) {
    run(f_.device_get(&handle_, device), "device");
    run(f_.retain_context(&context_, handle_), "context");
    enter();
    read_limits();
    const AllocationProperties properties{.location = {.id = device_}};
    run(f_.memory_granularity(&granularity_, &properties, 0), "granularity");
  }

  Vendor vendor() const override { return vendor_; }
  const DeviceLimits& limits() const override { return limits_; }
  void make_current() override { enter(); }
  bool is_on_device(const void* pointer) const override {
    f_.set_context(context_);
    unsigned type = 0;
    int attribute = kMemoryType.of(vendor_);
    void* place = &type;
    // Unlike the function for one attribute, it takes any address.
    return f_.pointer_attributes(1, &attribute, &place, pointer) == 0 &&
           type == static_cast<unsigned>(kDeviceMemory.of(vendor_));
  }

 protected:
  void* do_allocate(size_t bytes) override {
    enter();
    void* pointer = nullptr;
    run(f_.allocate(&pointer, bytes), "allocate", bytes);
    return pointer;
  }
  void do_free(void* pointer) noexcept override {
    if (pointer == nullptr) return;
    f_.set_context(context_);
    f_.release(pointer);
  }
  void* do_allocate_pinned(size_t bytes) override {
    enter();
    void* pointer = nullptr;
    run(f_.allocate_host(&pointer, bytes, 0), "allocate_pinned", bytes);
    return pointer;
  }
  void do_free_pinned(void* pointer) noexcept override {
    if (pointer == nullptr) return;
    f_.set_context(context_);
    f_.free_host(pointer);
  }
  std::unique_ptr<Reservation> do_reserve(int64_t bytes) override;
  StreamHandle do_make_stream() override {
    enter();
    StreamHandle stream;
    run(f_.stream_create(&stream.native, static_cast<unsigned>(kNonBlocking.of(vendor_))),
        "make_stream");
    return stream;
  }
  void do_destroy(StreamHandle stream) noexcept override {
    f_.set_context(context_);
    f_.stream_destroy(stream.native);
  }
  void do_synchronize(StreamHandle stream) override {
    enter();
    run(f_.stream_synchronize(stream.native), "synchronize");
  }
  void do_copy(StreamHandle stream, void* to, const void* from, size_t bytes) override {
    enter();
    run(vendor_ == Vendor::cuda ? f_.copy(to, from, bytes, stream.native)
                                : f_.copy_hip(to, from, bytes, kCopyByAddress, stream.native),
        "copy", bytes);
  }
  void do_fill(StreamHandle stream, void* to, uint8_t value, size_t bytes) override {
    enter();
    run(f_.fill(to, value, bytes, stream.native), "fill", bytes);
  }
  EventHandle do_make_event() override {
    enter();
    EventHandle event;
    run(f_.event_create(&event.native, static_cast<unsigned>(kWithoutTiming.of(vendor_))),
        "make_event");
    return event;
  }
  void do_destroy(EventHandle event) noexcept override {
    f_.set_context(context_);
    f_.event_destroy(event.native);
  }
  void do_record(StreamHandle stream, EventHandle event) override {
    enter();
    run(f_.event_record(event.native, stream.native), "record");
  }
  void do_wait(StreamHandle stream, EventHandle event) override {
    enter();
    run(f_.stream_wait(stream.native, event.native, 0), "wait");
  }
  void do_synchronize(EventHandle event) override {
    enter();
    run(f_.event_synchronize(event.native), "synchronize_event");
  }
  bool do_done(EventHandle event) override {
    enter();
    const int status = f_.event_query(event.native);
    if (status != kNotReady.of(vendor_)) run(status, "done");
    return status != kNotReady.of(vendor_);
  }
  void do_begin_capture(StreamHandle stream) override {
    enter();
    run(f_.begin_capture(stream.native, kThreadLocalCapture.of(vendor_)), "begin_capture");
  }
  GraphHandle do_end_capture(StreamHandle stream) override {
    enter();
    void* graph = nullptr;
    run(f_.end_capture(stream.native, &graph), "end_capture");
    GraphHandle instance;
    const int status = f_.graph_instantiate(&instance.native, graph, 0);
    f_.graph_destroy(graph);
    run(status, "end_capture");
    return instance;
  }
  void do_launch(StreamHandle stream, GraphHandle graph) override {
    enter();
    run(f_.graph_launch(graph.native, stream.native), "launch_graph");
  }
  void do_destroy(GraphHandle graph) noexcept override {
    f_.set_context(context_);
    f_.graph_exec_destroy(graph.native);
  }
  ModuleHandle do_load(std::span<const std::byte> image) override {
    enter();
    ModuleHandle module;
    run(f_.module_load(&module.native, image.data()), "load", image.size());
    return module;
  }
  void do_unload(ModuleHandle module) noexcept override {
    f_.set_context(context_);
    f_.module_unload(module.native);
  }
  FunctionHandle do_function(ModuleHandle module, const std::string& name) override {
    enter();
    FunctionHandle function;
    run(f_.module_function(&function.native, module.native, name.c_str()), "function");
    return function;
  }
  void do_launch(StreamHandle stream, const KernelLaunch& launch) override {
    enter();
    void* parameters[] = {const_cast<std::byte*>(launch.arguments.data())};
    if (launch.overlaps && overlaps_) {
      LaunchAttribute attribute;
      attribute.value.allowed = 1;
      const LaunchConfiguration configuration{
          .grid = {launch.grid[0], launch.grid[1], launch.grid[2]},
          .block = {launch.threads, 1, 1},
          .stream = stream.native,
          .attributes = &attribute,
          .count = 1};
      return run(f_.launch_configured(&configuration, launch.function.native, parameters, nullptr),
                 "launch");
    }
    run(f_.launch(launch.function.native, launch.grid[0], launch.grid[1], launch.grid[2],
                  launch.threads, 1, 1, 0, stream.native, parameters, nullptr),
        "launch");
  }
  int64_t do_free_bytes() override {
    enter();
    size_t free = 0;
    size_t total = 0;
    run(f_.memory_info(&free, &total), "free_bytes");
    return static_cast<int64_t>(free);
  }

 private:
  friend class NativeReservation;

  void enter() { run(f_.set_context(context_), "context"); }

  void run(int status, std::string_view call, size_t bytes = 0) {
    if (status == 0) [[likely]] {
      return;
    }
    const char* text = nullptr;
    if (f_.error_text(status, &text) != 0 || text == nullptr) text = "unknown error";
    const std::string what =
        bytes == 0 ? std::string(call) : fmt::format("{} of {} bytes", call, bytes);
    if (status == kOutOfMemory.of(vendor_)) {
      fail(ErrorKind::out_of_memory, "{} {}: {} failed: {}: {}", to_string(vendor_), device_, what,
           text, advice(ErrorKind::out_of_memory));
    }
    fail(ErrorKind::device, "{} {} ({}): {} failed: {} (status {}): {}", to_string(vendor_),
         device_, limits_.name, what, text, status, advice(ErrorKind::device));
  }

  int attribute(Number number) {
    int value = 0;
    run(f_.device_attribute(&value, number.of(vendor_), handle_), "device_attribute");
    return value;
  }

  void read_limits() {
    std::array<char, 256> name{};
    run(f_.device_name(name.data(), static_cast<int>(name.size()) - 1, handle_), "device_name");
    limits_.name = name.data();
    size_t memory = 0;
    run(f_.device_memory(&memory, handle_), "device_memory");
    limits_.memory_bytes = static_cast<int64_t>(memory);
    int version = 0;
    run(f_.driver_version(&version), "driver_version");
    const bool cuda = vendor_ == Vendor::cuda;
    limits_.driver = cuda ? fmt::format("{}.{}", version / 1000, version % 1000 / 10)
                          : fmt::format("{}.{}", version / 10000000, version / 100000 % 100);
    limits_.multiprocessors = attribute(kMultiprocessors);
    limits_.wave = attribute(kWave);
    limits_.shared_bytes = attribute(kSharedBytes);
    constexpr int kHopper = 9;  // the first whose launches overlap
    overlaps_ = cuda && f_.launch_configured != nullptr && attribute(kMajor) >= kHopper;
    constexpr int kPortableCluster = 8;
    if (overlaps_) limits_.cluster = kPortableCluster;
    limits_.architecture = cuda ? fmt::format("sm_{}{}", attribute(kMajor), attribute(kMinor))
                                : amd_architecture(device_);
  }

  Vendor vendor_;
  std::shared_ptr<const DynamicLibrary> library_;
  Functions f_;
  int device_;
  int handle_ = 0;
  void* context_ = nullptr;
  size_t granularity_ = 1;
  DeviceLimits limits_;
  bool overlaps_ = false;
};

// Physical memory is mapped in blocks of the driver's granularity, each once.
class NativeReservation final : public Reservation {
 public:
  NativeReservation(NativeDriver& driver, int64_t bytes) : driver_(driver) {
    driver_.enter();
    const size_t unit = driver_.granularity_;
    bytes_ = (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + unit - 1) / unit * unit;
    driver_.run(driver_.f_.address_reserve(&base_, bytes_, 0, nullptr, 0), "reserve", bytes_);
  }
  ~NativeReservation() override {
    driver_.f_.set_context(driver_.context_);
    for (const Block& block : blocks_) {
      driver_.f_.memory_unmap(static_cast<char*>(base_) + block.offset, block.bytes);
      driver_.f_.memory_release(block.memory);
    }
    driver_.f_.address_free(base_, bytes_);
  }
  NativeReservation(const NativeReservation&) = delete;
  NativeReservation& operator=(const NativeReservation&) = delete;
  void* base() const override { return base_; }
  int64_t bytes() const override { return static_cast<int64_t>(bytes_); }

  void commit(int64_t offset, int64_t bytes) override {
    check(offset >= 0 && bytes >= 0 && bytes <= this->bytes() - offset, ErrorKind::out_of_memory,
          "{} bytes at {} exceed the {} reserved", bytes, offset, bytes_);
    driver_.attempt("commit");
    driver_.enter();
    const size_t unit = driver_.granularity_;
    const size_t begin = static_cast<size_t>(offset) / unit * unit;
    const size_t end = (static_cast<size_t>(offset + bytes) + unit - 1) / unit * unit;
    for (size_t at = begin; at < end;) {
      // Up to the next block that is mapped.
      size_t next = end;
      bool mapped = false;
      for (const Block& block : blocks_) {
        if (block.offset <= at && at < block.offset + block.bytes) {
          at = block.offset + block.bytes;
          mapped = true;
          break;
        }
        if (block.offset > at) next = std::min(next, block.offset);
      }
      if (mapped) continue;
      map(at, next - at);
      at = next;
    }
  }
  void release(int64_t offset, int64_t bytes) noexcept override {
    driver_.f_.set_context(driver_.context_);
    std::erase_if(blocks_, [&](const Block& block) {
      const bool inside = block.offset >= static_cast<size_t>(offset) &&
                          block.offset + block.bytes <= static_cast<size_t>(offset + bytes);
      if (inside) {
        driver_.f_.memory_unmap(static_cast<char*>(base_) + block.offset, block.bytes);
        driver_.f_.memory_release(block.memory);
      }
      return inside;
    });
  }

 private:
  struct Block {
    size_t offset;
    size_t bytes;
    void* memory;
  };

  void map(size_t offset, size_t bytes) {
    const AllocationProperties properties{.location = {.id = driver_.device_}};
    const AccessDescription access{.location = {.id = driver_.device_}};
    void* memory = nullptr;
    driver_.run(driver_.f_.memory_create(&memory, bytes, &properties, 0), "commit", bytes);
    char* address = static_cast<char*>(base_) + offset;
    int status = driver_.f_.memory_map(address, bytes, 0, memory, 0);
    if (status == 0) {
      status = driver_.f_.memory_access(address, bytes, &access, 1);
      if (status != 0) driver_.f_.memory_unmap(address, bytes);
    }
    if (status != 0) driver_.f_.memory_release(memory);
    driver_.run(status, "commit", bytes);
    blocks_.push_back({offset, bytes, memory});
  }

  NativeDriver& driver_;
  void* base_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Block> blocks_;
};

std::unique_ptr<Reservation> NativeDriver::do_reserve(int64_t bytes) {
  return std::make_unique<NativeReservation>(*this, bytes);
}

}  // namespace

std::shared_ptr<Driver> open_native_driver(Vendor vendor, int device, std::string* reason) {
  const bool cuda = vendor == Vendor::cuda;
  const VendorLibrary which = cuda ? VendorLibrary::cuda_driver : VendorLibrary::hip_driver;
  std::string why;
  const std::shared_ptr<const DynamicLibrary> library = open_vendor_library(which, &why);
  const auto state = [&](std::string text) {
    if (reason != nullptr) *reason = std::move(text);
    return nullptr;
  };
  if (library == nullptr) {
    return state(
        fmt::format("{} is missing ({}): install {}", info(which).name, why, info(which).package));
  }
  Functions functions;
  if (!load(*library, cuda, functions, &why)) return state(why);
  int count = 0;
  int status = functions.init(0);
  if (status == 0) status = functions.device_count(&count);
  if (status != 0) {
    const char* text = nullptr;
    if (functions.error_text(status, &text) != 0 || text == nullptr) text = "unknown error";
    return state(fmt::format("{} does not start: {} (status {}): update it, or restart the machine",
                             info(which).name, text, status));
  }
  if (count == 0) return state(fmt::format("{} finds no device", info(which).name));
  if (device < 0 || device >= count) {
    return state(fmt::format("unknown device {}: {} finds {}", device, info(which).name, count));
  }
  return std::make_shared<NativeDriver>(vendor, library, functions, device);
}

}  // namespace lathe::gpu
