// SPDX-License-Identifier: MIT
// The compiled device code of one device: compiled once, in parallel, and kept on disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "targets/gpu/code/compiler.h"
#include "targets/gpu/code/disk_cache.h"

namespace lathe::gpu {

// Which code is compiled first: launches that may come first need it, or others do. What a launch
// waits for comes before both.
enum class Wanted : uint8_t { soon, later };

// A module that is compiled, or will be.
class Code {
 public:
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  // The kernel of the source's name. Waits until it is compiled; throws what compiling threw.
  FunctionHandle function() const;
  bool failed() const;

 private:
  friend class CodeStore;
  Code(std::shared_ptr<Driver> driver, Wanted wanted)
      : driver_(std::move(driver)), soon_(wanted == Wanted::soon) {}
  static constexpr int kLast = 2;
  int turn() const { return awaited_ ? 0 : soon_ ? 1 : kLast; }
  std::shared_ptr<Driver> driver_;
  mutable std::atomic<bool> awaited_{false};
  mutable std::atomic<bool> soon_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr failure_;
  ModuleHandle module_;
  FunctionHandle function_;
};

class CodeStore {
 public:
  // `cache` outlives it. The compiler is made when code is first needed.
  CodeStore(std::shared_ptr<Driver> driver, DiskCache& cache);
  ~CodeStore();
  CodeStore(const CodeStore&) = delete;
  CodeStore& operator=(const CodeStore&) = delete;

  // Equal sources share their code, unless it failed: then it is made anew. Compiling starts on
  // another thread.
  std::shared_ptr<const Code> get(Source source, Wanted wanted = Wanted::soon);
  int64_t compiled() const { return compiled_; }  // not found on disk
  // Runs `work` on one of its threads, one after the other, while no code waits or is made. `work`
  // must not throw; what has not begun when the store ends is dropped.
  void later(std::function<void()> work);
  // Waits until no thread holds code or works: what is loaded then is what others hold.
  void wait_idle();

  // Receives every source once per store, for tests; null: none.
  static std::function<void(const Source&)> watch(std::function<void(const Source&)> watcher);

  // Ends the threads of all stores after what each is compiling; what waits is dropped.
  static void stop_all();

  // The folder of the user's cache.
  static std::string default_folder();

 private:
  void work();
  void make(Code& code, const Source& source);
  static void finish(Code& code, ModuleHandle module, FunctionHandle function,
                     std::exception_ptr failure);
  static void stop_at_exit();
  // Ends the threads after what each is compiling; what waits is dropped if `drop`.
  void stop(bool drop);
  std::vector<std::byte> image_of(const Source& source);

  std::shared_ptr<Driver> driver_;
  DiskCache& cache_;
  std::once_flag compiler_made_;
  std::unique_ptr<Compiler> compiler_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::weak_ptr<const Code>> codes_;  // by text
  struct Job {
    std::shared_ptr<Code> code;
    Source source;
  };
  std::deque<Job> jobs_;
  std::deque<std::function<void()>> later_;
  bool works_ = false;  // a thread runs one of later_
  std::vector<std::thread> threads_;
  int64_t held_ = 0;  // jobs of the threads
  bool stop_ = false;
  std::atomic<int64_t> compiled_{0};
};

}  // namespace lathe::gpu
