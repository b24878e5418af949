// SPDX-License-Identifier: MIT
#include "targets/gpu/libraries/cudnn.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "targets/gpu/libraries/cudnn_plan.h"
#include "targets/gpu/libraries/vendor_library.h"

namespace lathe::gpu {
namespace {

constexpr size_t kMostPlans = 4096;  // captures refer to them: none is dropped
constexpr size_t kMostThreads = 16;

std::shared_ptr<void> unowned(void* handle) {
  return {handle, [](void*) {}};
}

// Null if the library refuses one more.
std::shared_ptr<void> new_handle(const CudnnFunctions& f) {
  void* handle = nullptr;
  if (f.create(&handle) != 0) return nullptr;
  return {handle, f.destroy};
}

std::string cache_key(const CudnnFunctions& f, const DeviceLimits& limits,
                      const LibraryConvolution& c) {
  return fmt::format("plan 1, cuDNN {}, {} {} {}, driver {}: {}", f.version(), limits.name,
                     limits.architecture, limits.multiprocessors, limits.driver,
                     fmt::join(key_of(c), " "));
}

// A plan that the cache has, or a new one.
std::unique_ptr<CudnnPlan> plan_of(const CudnnFunctions& f, const std::shared_ptr<void>& handle,
                                   const DeviceLimits& limits, DiskCache& cache,
                                   const LibraryConvolution& c) {
  const std::string key = cache_key(f, limits, c);
  if (const auto kept = cache.read(key)) {
    const std::string text(reinterpret_cast<const char*>(kept->data()), kept->size());
    auto plan = std::make_unique<CudnnPlan>(f, handle, text);
    if (plan->good()) return plan;
  }
  auto plan = std::make_unique<CudnnPlan>(f, handle, c);
  const std::string text = plan->good() ? plan->text() : "";
  if (!text.empty()) cache.write(key, std::as_bytes(std::span(text)));
  return plan;
}

}  // namespace

bool Cudnn::computes(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

std::unique_ptr<Cudnn> Cudnn::open(Driver& driver, DiskCache& cache, std::string* reason) {
  auto library = open_vendor_library(VendorLibrary::cudnn, reason);
  if (library == nullptr) return nullptr;
  CudnnFunctions f;
  bool complete = true;
#define LATHE_FUNCTION(name, type, vendor) \
  complete = complete && find_function(*library, #vendor, f.name, reason);
#include "targets/gpu/libraries/cudnn_functions.inc"
#undef LATHE_FUNCTION
  if (!complete) return nullptr;
  std::unique_ptr<Cudnn> made(new Cudnn(driver, cache, std::move(library), f));
  driver.make_current();
  const int status = f.create(&made->handle_);
  if (status == 0) return made;
  if (reason != nullptr) *reason = fmt::format("cudnnCreate failed with status {}", status);
  return nullptr;
}

Cudnn::Cudnn(Driver& driver, DiskCache& cache, std::shared_ptr<const DynamicLibrary> library,
             const CudnnFunctions& f)
    : driver_(driver),
      cache_(cache),
      library_(std::move(library)),
      f_(std::make_unique<CudnnFunctions>(f)) {}

Cudnn::~Cudnn() {
  plans_.clear();
  failed_.clear();
  if (handle_ != nullptr) f_->destroy(handle_);
}

std::string Cudnn::description() const {
  const size_t version = f_->version();
  return fmt::format("cuDNN {}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100,
                     library_->path());
}

std::unique_ptr<CudnnPlan> Cudnn::make_plan(const LibraryConvolution& c) const {
  driver_.make_current();
  return plan_of(*f_, unowned(handle_), driver_.limits(), cache_, c);
}

void Cudnn::expect(const LibraryConvolution& c) {
  const std::lock_guard lock(mutex_);
  if (plans_.size() + expected_.size() >= kMostPlans) return;
  std::vector<int64_t> key = key_of(c);
  if (!plans_.contains(key)) expected_.emplace(std::move(key), c);
}

// Calls with different handles do not wait for each other: each thread has one of its own, which
// its plans keep.
void Cudnn::make_expected() {
  std::vector<std::map<std::vector<int64_t>, LibraryConvolution>::value_type*> jobs;
  for (auto& job : expected_) jobs.push_back(&job);
  std::vector<std::unique_ptr<CudnnPlan>> made(jobs.size());
  std::vector<std::shared_ptr<void>> handles{unowned(handle_)};
  for (const auto& [key, plan] : plans_) {
    if (std::ranges::find(handles, plan->handle()) == handles.end()) {
      handles.push_back(plan->handle());
    }
  }
  const size_t most = std::min<size_t>(kMostThreads, std::thread::hardware_concurrency());
  const size_t count = std::max<size_t>(std::min(most, jobs.size()), 1);
  handles.resize(std::max(handles.size(), count));
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  const auto work = [&](std::shared_ptr<void>& handle) {
    try {
      driver_.make_current();
      if (handle == nullptr) handle = new_handle(*f_);
      if (handle == nullptr) return;  // other threads make its plans
      for (size_t i = next++; i < jobs.size(); i = next++) {
        made[i] = plan_of(*f_, handle, driver_.limits(), cache_, jobs[i]->second);
      }
    } catch (...) {
      const std::lock_guard lock(failing);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work, std::ref(handles[i]));
    work(handles[0]);
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (made[i] != nullptr) plans_.emplace(jobs[i]->first, std::move(made[i]));
  }
  expected_.clear();
  if (failure != nullptr) std::rethrow_exception(failure);
}

// What a library took from the cache may fail all the same, as after a change of the machine.
void Cudnn::replace_kept(std::unique_ptr<CudnnPlan>& plan, const LibraryConvolution& c,
                         int status) {
  if (failed_.empty()) {
    log_warning(fmt::format(
        "a cached plan of cuDNN failed with status {}: it and others that fail are made anew",
        status));
  }
  cache_.remove(cache_key(*f_, driver_.limits(), c));
  failed_.push_back(std::exchange(plan, make_plan(c)));
}

bool Cudnn::run(StreamHandle stream, const LibraryConvolution& c, void* workspace) {
  driver_.make_current();
  const std::lock_guard lock(mutex_);
  if (!expected_.empty()) make_expected();
  std::vector<int64_t> key = key_of(c);
  auto at = plans_.find(key);
  if (at == plans_.end()) {
    if (plans_.size() >= kMostPlans) return false;
    at = plans_.emplace(std::move(key), make_plan(c)).first;
  }
  if (!at->second->good()) return false;
  int status = at->second->run(stream, c, aligned_workspace(workspace));
  if (status != 0 && at->second->is_kept()) {
    replace_kept(at->second, c, status);
    if (!at->second->good()) return false;
    status = at->second->run(stream, c, aligned_workspace(workspace));
  }
  check(status == 0, ErrorKind::device, "cuDNN failed with status {} at a convolution", status);
  return true;
}

}  // namespace lathe::gpu
