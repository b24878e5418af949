// SPDX-License-Identifier: MIT
#include "targets/gpu/libraries/cudnn.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/error.h"
#include "targets/gpu/libraries/cudnn_plan.h"
#include "targets/gpu/libraries/vendor_library.h"

namespace lathe::gpu {
namespace {

constexpr size_t kMostPlans = 4096;  // captures refer to them: none is dropped
constexpr size_t kMostThreads = 16;

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
  if (handle_ != nullptr) f_->destroy(handle_);
}

std::string Cudnn::description() const {
  const size_t version = f_->version();
  return fmt::format("cuDNN {}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100,
                     library_->path());
}

// A plan that the cache has, or a new one.
std::unique_ptr<CudnnPlan> Cudnn::make_plan(const LibraryConvolution& c) const {
  driver_.make_current();
  const DeviceLimits& limits = driver_.limits();
  const std::string key = fmt::format("plan 1, cuDNN {}, {} {} {}, driver {}: {}", f_->version(),
                                      limits.name, limits.architecture, limits.multiprocessors,
                                      limits.driver, fmt::join(key_of(c), " "));
  if (const auto kept = cache_.read(key)) {
    const std::string text(reinterpret_cast<const char*>(kept->data()), kept->size());
    auto plan = std::make_unique<CudnnPlan>(*f_, handle_, text);
    if (plan->good()) return plan;
  }
  auto plan = std::make_unique<CudnnPlan>(*f_, handle_, c);
  const std::string text = plan->good() ? plan->text() : "";
  if (!text.empty()) cache_.write(key, std::as_bytes(std::span(text)));
  return plan;
}

void Cudnn::expect(const LibraryConvolution& c) {
  const std::lock_guard lock(mutex_);
  if (plans_.size() + expected_.size() >= kMostPlans) return;
  std::vector<int64_t> key = key_of(c);
  if (!plans_.contains(key)) expected_.emplace(std::move(key), c);
}

// Library calls for different plans do not wait for each other.
void Cudnn::make_expected() {
  std::vector<std::map<std::vector<int64_t>, LibraryConvolution>::value_type*> jobs;
  for (auto& job : expected_) jobs.push_back(&job);
  std::vector<std::unique_ptr<CudnnPlan>> made(jobs.size());
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < jobs.size(); i = next++) made[i] = make_plan(jobs[i]->second);
    } catch (...) {
      const std::lock_guard lock(failing);
      failure = std::current_exception();
    }
  };
  {
    const size_t most = std::min<size_t>(kMostThreads, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    while (threads.size() + 1 < std::min(most, jobs.size())) threads.emplace_back(work);
    work();
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (made[i] != nullptr) plans_.emplace(jobs[i]->first, std::move(made[i]));
  }
  expected_.clear();
  if (failure != nullptr) std::rethrow_exception(failure);
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
  int status = f_->set_stream(handle_, stream.native);
  if (status == 0) status = at->second->run(c, aligned_workspace(workspace));
  check(status == 0, ErrorKind::device, "cuDNN failed with status {} at a convolution", status);
  return true;
}

}  // namespace lathe::gpu
