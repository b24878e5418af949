// SPDX-License-Identifier: MIT
#include "targets/gpu/code/code_store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/os_environment.h"
#include "base/os_thread.h"

namespace lathe::gpu {
namespace {

constexpr size_t kThreads = 16;

std::function<void(const Source&)>& watcher() {
  static std::function<void(const Source&)> current;
  return current;
}

// Stores that a process which exits must stop: never destroyed.
struct Stores {
  std::mutex mutex;
  std::set<CodeStore*> live;
};

Stores& stores() {
  static Stores& all = *new Stores;
  return all;
}

}  // namespace

Code::~Code() {
  if (module_.native != nullptr) driver_->unload(module_);
}

FunctionHandle Code::function() const {
  std::unique_lock lock(mutex_);
  if (!done_) awaited_ = true;
  changed_.wait(lock, [this] { return done_; });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  return function_;
}

bool Code::failed() const {
  const std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

CodeStore::CodeStore(std::shared_ptr<Driver> driver, DiskCache& cache)
    : driver_(std::move(driver)), cache_(cache) {
  const std::lock_guard lock(stores().mutex);
  stores().live.insert(this);
}

CodeStore::~CodeStore() {
  {
    const std::lock_guard lock(stores().mutex);
    stores().live.erase(this);
  }
  stop(false);
}

void CodeStore::stop(bool drop) {
  std::vector<std::thread> threads;
  std::deque<Job> dropped;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    if (drop) dropped = std::exchange(jobs_, {});
    later_.clear();
    threads = std::exchange(threads_, {});
  }
  changed_.notify_all();
  for (const Job& job : dropped) {
    finish(*job.code, {}, {},
           std::make_exception_ptr(
               Error(ErrorKind::internal, "the process ends: its kernels are not compiled")));
  }
  for (std::thread& thread : threads) thread.join();
}

// Exit handlers run last to first: the threads end before the vendors' libraries, which have
// registered theirs by now, are torn down under them.
void CodeStore::stop_at_exit() {
  static const int registered = std::atexit([] { stop_all(); });
  static_cast<void>(registered);
}

void CodeStore::stop_all() {
  const std::lock_guard lock(stores().mutex);
  for (CodeStore* store : stores().live) store->stop(true);
}

std::function<void(const Source&)> CodeStore::watch(
    std::function<void(const Source&)> watcher_function) {
  return std::exchange(watcher(), std::move(watcher_function));
}

std::string CodeStore::default_folder() {
  if (const auto cache = environment_variable("XDG_CACHE_HOME")) return *cache + "/lathe/gpu";
  if (const auto home = environment_variable("HOME")) return *home + "/.cache/lathe/gpu";
  return "";
}

std::shared_ptr<const Code> CodeStore::get(Source source, Wanted wanted) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Code>& known = codes_[source.text];
  if (auto code = known.lock(); code != nullptr && !code->failed()) {
    if (wanted == Wanted::soon) code->soon_ = true;
    return code;
  }
  if (watcher()) watcher()(source);
  const std::shared_ptr<Code> code(new Code(driver_, wanted));
  known = code;
  jobs_.push_back({code, std::move(source)});
  if (threads_.size() < std::min<size_t>(kThreads, std::thread::hardware_concurrency()) &&
      threads_.size() < jobs_.size()) {
    threads_.emplace_back([this] { work(); });
  }
  changed_.notify_all();
  return code;
}

void CodeStore::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && held_ == 0 && later_.empty() && !works_; });
}

void CodeStore::later(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    later_.push_back(std::move(work));
    if (threads_.empty()) threads_.emplace_back([this] { this->work(); });
  }
  changed_.notify_all();
}

void CodeStore::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto has_later = [this] { return held_ == 0 && !later_.empty() && !works_; };
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty() || has_later(); });
    if (jobs_.empty() && !has_later()) return;
    if (jobs_.empty()) {
      const std::function<void()> work = std::move(later_.front());
      later_.pop_front();
      works_ = true;
      lock.unlock();
      work();
      stop_at_exit();
      lock.lock();
      works_ = false;
      changed_.notify_all();
      continue;
    }
    {
      const auto next =
          std::ranges::min_element(jobs_, {}, [](const Job& each) { return each.code->turn(); });
      const Job job = std::move(*next);
      jobs_.erase(next);
      ++held_;
      // What was expected in vain is not made.
      if (job.code.use_count() > 1 || job.code->turn() != Code::kLast) {
        lock.unlock();
        make(*job.code, job.source);
        lock.lock();
      }
    }
    --held_;
    changed_.notify_all();
  }
}

void CodeStore::make(Code& code, const Source& source) {
  ModuleHandle module;
  FunctionHandle function;
  std::exception_ptr failure;
  try {
    module = driver_->load(image_of(source));
    function = driver_->function(module, source.name);
  } catch (...) {
    failure = std::current_exception();
  }
  stop_at_exit();
  finish(code, module, function, std::move(failure));
}

void CodeStore::finish(Code& code, ModuleHandle module, FunctionHandle function,
                       std::exception_ptr failure) {
  {
    const std::lock_guard lock(code.mutex_);
    code.module_ = module;
    code.function_ = function;
    code.failure_ = std::move(failure);
    code.done_ = true;
  }
  code.changed_.notify_all();
}

std::vector<std::byte> CodeStore::image_of(const Source& source) {
  std::call_once(compiler_made_, [this] {
    compiler_ = make_compiler(driver_->vendor(), driver_->limits().architecture);
  });
  const std::string key = compiler_->key(source);
  if (auto image = cache_.read(key)) return std::move(*image);
  std::vector<std::byte> image = compiler_->compile(source);
  ++compiled_;
  cache_.write(key, image);
  return image;
}

}  // namespace lathe::gpu
