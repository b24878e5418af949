// SPDX-License-Identifier: MIT
// Weights that threads bring to the device by way of pinned memory: each byte arrives, whatever
// fails is stated, and nothing is leaked.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "base/file_map.h"
#include "base/os_environment.h"
#include "base/os_private_folder.h"
#include "base/thread_pool.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/gpu/target.h"

namespace lathe::gpu {
namespace {

std::vector<uint32_t> numbers(size_t count, uint32_t first) {
  std::vector<uint32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

// x plus a weight per line: of a byte more than buffers have, of several, of few bytes.
std::unique_ptr<Program> program() {
  auto made = std::make_unique<Program>();
  Module& main = made->main();
  Builder b(main);
  std::vector<Value*> results;
  std::vector<std::string> names;
  int32_t value = 0;
  for (const int64_t count : {3, 524289, 1, 1700007, 524288, 40}) {
    Value* x =
        main.add_parameter(Type::tensor(ElementType::i32, {count}), fmt::format("x{}", count));
    Tensor w(ElementType::i32, {count});
    for (int32_t& element : w.elements<int32_t>()) element = value++;
    results.push_back(b(ops::add, {x, b.literal(w)}));
    names.push_back(fmt::format("y{}", count));
  }
  main.set_results(results, names);
  return made;
}

void upload(Stream& stream, void* to, const void* from, size_t bytes, ThreadPool* pool) {
  const BlockCopy block{to, from, bytes};
  stream.upload({&block, 1}, pool);
}

std::shared_ptr<const Target> open_target(const std::shared_ptr<Driver>& driver,
                                          int64_t limit = 0) {
  return std::make_shared<GpuTarget>("gpu:host", driver, limit, CodeStore::default_folder());
}

class GpuUpload : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a card's calls do not fail on request";
    if (GetParam() > 0) pool_ = std::make_unique<ThreadPool>(GetParam());
  }
  std::unique_ptr<ThreadPool> pool_;
};

TEST_P(GpuUpload, BringsEveryWeight) {
  Session session(
      compile(program(), {.target = open_target(make_host_driver()), .pool = pool_.get()}));
  std::vector<Box> inputs;
  for (const auto& parameter : session.plan().program->main().parameters()) {
    Tensor x(ElementType::i32, {*(*parameter->type().dims)[0].constant()});
    std::ranges::fill(x.elements<int32_t>(), 1);
    inputs.push_back(Box{x});
  }
  int32_t value = 0;
  for (const Box& result : session.run(inputs)) {
    for (const int32_t element : result.tensor().elements<int32_t>()) ASSERT_EQ(element, ++value);
  }
  EXPECT_EQ(value, 3 + 524289 + 1 + 1700007 + 524288 + 40);
}

// As those of attention's products: one after the other, the whole read as it is and transposed.
TEST_P(GpuUpload, JoinsWeightsOnTheDevice) {
  auto made = std::make_unique<Program>();
  Module& main = made->main();
  Value* x = main.add_parameter(Type::tensor(ElementType::f32, {2, 3}), "x");
  Value* z = main.add_parameter(Type::tensor(ElementType::f32, {7, 3}), "z");
  Builder b(main);
  std::vector<Value*> parts;
  float value = 0;
  for (const int64_t rows : {4, 1, 2}) {
    Tensor w(ElementType::f32, {rows, 3});
    for (float& element : w.elements<float>()) element = value++;
    parts.push_back(b.literal(w));
  }
  Value* joined = b(ops::concat, parts, {{"axis", int64_t{0}}});
  Value* turned = b.transpose(joined, {1, 0});
  for (Value* constant : {joined, turned}) constant->definition()->set_deferred(true);
  main.set_results({b(ops::matmul, {x, turned}), b(ops::add, {z, joined})}, {"y", "sum"});
  Session session(
      compile(std::move(made), {.target = open_target(make_host_driver()), .pool = pool_.get()}));
  Tensor rows(ElementType::f32, {2, 3});
  for (int64_t i = 0; i < 6; ++i) rows.as<float>()[i] = static_cast<float>(i + 1);
  Tensor zeros(ElementType::f32, {7, 3});
  std::ranges::fill(zeros.elements<float>(), 0.0F);
  const std::vector<Box> found = session.run(std::vector<Box>{Box{rows}, Box{zeros}});
  for (int64_t i = 0; i < 14; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < 3; ++k) {
      sum += static_cast<float>((i / 7 * 3 + k + 1) * (i % 7 * 3 + k));
    }
    EXPECT_EQ(found[0].tensor().as<float>()[i], sum) << i;
  }
  for (int64_t i = 0; i < 21; ++i) {
    EXPECT_EQ(found[1].tensor().as<float>()[i], static_cast<float>(i)) << i;
  }
}

TEST_P(GpuUpload, KeepsTheOrderOfItsStream) {
  const std::shared_ptr<Driver> driver = make_host_driver();
  const GpuDevice device(driver, "gpu:host", 0, "");
  const size_t count = 1400001;
  const size_t bytes = count * sizeof(uint32_t);
  void* place = device.allocator().allocate(bytes, 64);
  {
    const std::unique_ptr<Stream> stream = device.make_stream();
    for (const uint32_t first : {5U, 70U, 900U}) {
      std::vector<uint32_t> source = numbers(count, first);
      upload(*stream, place, source.data(), bytes, pool_.get());
      std::ranges::fill(source, 0U);  // nothing reads it any more
    }
    std::vector<uint32_t> found(count);
    stream->copy(found.data(), place, bytes);
    stream->synchronize();
    EXPECT_EQ(found, numbers(count, 900));
  }
  device.allocator().deallocate(place, bytes);
  EXPECT_EQ(live_objects(*driver), 0);
}

TEST_P(GpuUpload, ReadsMappedFilesWhosePagesItReleases) {
  const std::string path = temporary_file();
  const std::vector<uint32_t> written = numbers(1700003, 3);
  const size_t bytes = written.size() * sizeof(uint32_t);
  write_file(path, {reinterpret_cast<const char*>(written.data()), bytes});
  const std::shared_ptr<Driver> driver = make_host_driver();
  const GpuDevice device(driver, "gpu:host", 0, "");
  void* place = device.allocator().allocate(bytes, 64);
  {
    const std::shared_ptr<const FileMap> file = FileMap::open(path);
    const std::unique_ptr<Stream> stream = device.make_stream();
    upload(*stream, place, file->bytes().data(), bytes, pool_.get());
    std::vector<uint32_t> found(written.size());
    stream->copy(found.data(), place, bytes);
    stream->synchronize();
    EXPECT_EQ(found, written);
    EXPECT_EQ(std::memcmp(file->bytes().data(), written.data(), bytes), 0);  // read again
  }
  device.allocator().deallocate(place, bytes);
  std::filesystem::remove(path);
}

TEST_P(GpuUpload, SaysWhichCallFailsAndLeaksNothing) {
  const std::shared_ptr<Driver> driver = make_host_driver();
  const GpuDevice device(driver, "gpu:host", 0, "");
  const size_t count = 2000003;
  const size_t bytes = count * sizeof(uint32_t);
  const std::vector<uint32_t> source = numbers(count, 7);
  void* place = device.allocator().allocate(bytes, 64);
  const int64_t live = live_objects(*driver);
  int64_t failed = 0;
  for (int64_t call = 1;; ++call) {
    {
      const std::unique_ptr<Stream> stream = device.make_stream();
      driver->fail_at(call);
      try {
        upload(*stream, place, source.data(), bytes, pool_.get());
      } catch (const Error& error) {
        ++failed;
        EXPECT_NE(std::string(error.what()).find("as a test requested"), std::string::npos)
            << error.what();
      }
      const bool none = failed < call;
      driver->fail_at(0);
      // The stream serves on.
      upload(*stream, place, source.data(), bytes, pool_.get());
      std::vector<uint32_t> found(count);
      stream->copy(found.data(), place, bytes);
      stream->synchronize();
      ASSERT_EQ(found, source) << "after a fault at call " << call;
      if (none) break;
    }
    ASSERT_EQ(live_objects(*driver), live) << "after a fault at call " << call;
  }
  EXPECT_GT(failed, 8);  // a copy and an event for each of four buffers
  device.allocator().deallocate(place, bytes);
  EXPECT_EQ(live_objects(*driver), 0);
}

TEST_P(GpuUpload, UsesBuffersThatWereMadeReady) {
  const std::shared_ptr<Driver> driver = make_host_driver();
  const GpuDevice device(driver, "gpu:host", 0, "");
  const size_t count = 4000003;
  const std::vector<uint32_t> source = numbers(count, 7);
  const size_t bytes = count * sizeof(uint32_t);
  void* place = device.allocator().allocate(bytes, 64);
  const int64_t live = live_objects(*driver);
  device.expect_upload(1000);
  device.pinned().wait_idle();
  EXPECT_EQ(live_objects(*driver), live);
  for (int round = 0; round < 2; ++round) {
    device.expect_upload(int64_t{1} << 30);
    device.pinned().wait_idle();
    EXPECT_EQ(live_objects(*driver), live + static_cast<int64_t>(UploadRing::kBuffers));
    {
      const std::unique_ptr<Stream> stream = device.make_stream();
      const int64_t with_stream = live_objects(*driver);
      upload(*stream, place, source.data(), bytes, pool_.get());
      // Only events are new.
      EXPECT_LE(live_objects(*driver), with_stream + 8);
      std::vector<uint32_t> found(count);
      stream->copy(found.data(), place, bytes);
      stream->synchronize();
      EXPECT_EQ(found, source);
    }
    device.pinned().wait_idle();
    EXPECT_EQ(live_objects(*driver), live);
  }
  device.allocator().deallocate(place, bytes);
}

// Threads copy while the plan is made: whichever call fails, the plan's maker gets the error.
TEST_P(GpuUpload, SaysWhichCallOfAPlanFails) {
  const std::shared_ptr<Driver> driver = make_host_driver();
  int64_t failed = 0;
  for (int64_t call = 1;; call += 3) {
    driver->fail_at(call);
    bool none = true;
    try {
      compile(program(), {.target = open_target(driver), .pool = pool_.get()});
    } catch (const Error& error) {
      none = false;
      ++failed;
      EXPECT_NE(std::string(error.what()).find("as a test requested"), std::string::npos)
          << error.what();
    }
    driver->fail_at(0);
    ASSERT_EQ(live_objects(*driver), 0) << "after a fault at call " << call;
    if (none) break;
  }
  EXPECT_GT(failed, 8);
}

TEST_P(GpuUpload, StopsAtTheMemoryLimit) {
  const std::shared_ptr<Driver> driver = make_host_driver();
  try {
    compile(program(), {.target = open_target(driver, 10000000), .pool = pool_.get()});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
    EXPECT_NE(std::string(error.what()).find("exceed the limit"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(live_objects(*driver), 0);
}

// A device that copies as late as it may: when the host waits.
class LateDriver final : public Driver {
 public:
  Vendor vendor() const override { return Vendor::host; }
  const DeviceLimits& limits() const override { return limits_; }
  bool is_on_device(const void*) const override { return false; }

 protected:
  void* do_allocate(size_t) override { return nullptr; }
  void do_free(void*) noexcept override {}
  void* do_allocate_pinned(size_t bytes) override { return std::malloc(bytes); }
  void do_free_pinned(void* pointer) noexcept override { std::free(pointer); }
  std::unique_ptr<Reservation> do_reserve(int64_t) override { return nullptr; }
  StreamHandle do_make_stream() override { return {}; }
  void do_destroy(StreamHandle) noexcept override {}
  void do_synchronize(StreamHandle) override { run(copies_.size()); }
  void do_copy(StreamHandle, void* to, const void* from, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    copies_.push_back([=] { std::memcpy(to, from, bytes); });
  }
  void do_fill(StreamHandle, void*, uint8_t, size_t) override {}
  EventHandle do_make_event() override { return {new size_t(0)}; }
  void do_destroy(EventHandle event) noexcept override { delete &mark(event); }
  void do_record(StreamHandle, EventHandle event) override {
    const std::lock_guard lock(mutex_);
    mark(event) = copies_.size();
  }
  void do_wait(StreamHandle, EventHandle) override {}
  void do_synchronize(EventHandle event) override { run(mark(event)); }
  bool do_done(EventHandle event) override {
    const std::lock_guard lock(mutex_);
    return mark(event) <= ran_;
  }
  void do_begin_capture(StreamHandle) override {}
  GraphHandle do_end_capture(StreamHandle) override { return {}; }
  void do_launch(StreamHandle, GraphHandle) override {}
  void do_destroy(GraphHandle) noexcept override {}
  ModuleHandle do_load(std::span<const std::byte>) override { return {}; }
  void do_unload(ModuleHandle) noexcept override {}
  FunctionHandle do_function(ModuleHandle, const std::string&) override { return {}; }
  void do_launch(StreamHandle, const KernelLaunch&) override {}
  int64_t do_free_bytes() override { return 0; }

 private:
  static size_t& mark(EventHandle event) { return *static_cast<size_t*>(event.native); }
  void run(size_t copies) {
    const std::lock_guard lock(mutex_);
    for (; ran_ < copies; ++ran_) copies_[ran_]();
  }

  DeviceLimits limits_;
  std::mutex mutex_;
  std::vector<std::function<void()>> copies_;
  size_t ran_ = 0;
};

TEST_P(GpuUpload, FillsNoBufferThatIsBeingCopied) {
  LateDriver driver;
  const size_t count = 9000001;
  std::vector<uint32_t> source = numbers(count, 3);
  std::vector<uint32_t> found(count);
  PinnedBuffers pinned(driver);
  pinned.expect(3);
  UploadRing ring(driver, pinned);
  const BlockCopy block{found.data(), source.data(), count * sizeof(uint32_t)};
  ring.copy({}, {&block, 1}, pool_.get());
  std::ranges::fill(source, 0U);
  driver.synchronize(StreamHandle{});
  EXPECT_EQ(found, numbers(count, 3));
}

INSTANTIATE_TEST_SUITE_P(Threads, GpuUpload, testing::Values(0, 1, 4));

}  // namespace
}  // namespace lathe::gpu
