// SPDX-License-Identifier: MIT
// Environments, and runs that complete by a callback.
#include <condition_variable>
#include <deque>
#include <thread>

#include "base/os_thread.h"
#include "capi/session.h"

namespace lathe::capi {
namespace {

// Threads that start runs, made as runs wait for one. They live as long as the process: a run may
// outlast every handle.
class RunThreads {
 public:
  // Those of this process: a child of fork() has none of its parent's.
  static RunThreads& present() {
    static std::mutex mutex;
    static RunThreads* threads = nullptr;
    static uint64_t generation = 0;
    const std::scoped_lock lock(mutex);
    if (threads == nullptr || generation != fork_generation()) threads = new RunThreads;
    generation = fork_generation();
    return *threads;
  }

  void post(std::function<void()> run) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(run));
    if (waiting_.size() > idle_ && count_ < kMostThreads) {
      try {
        std::thread([this] { serve(); }).detach();
        ++count_;
      } catch (...) {
        if (count_ > 0) return;  // a thread in use takes it later
        waiting_.pop_back();
        throw;
      }
    }
    changed_.notify_one();
  }

 private:
  static constexpr size_t kMostThreads = 16;

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      --idle_;
      const std::function<void()> run = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      run();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  size_t idle_ = 0;
  size_t count_ = 0;
};

// A run with copies of what the caller may free after the call.
struct AsyncRun {
  std::shared_ptr<OpenSession> session;
  lathe_run_options options;
  std::vector<lathe_view> inputs;
  std::vector<std::unique_ptr<lathe_tensor>> values;
  lathe_view* outputs = nullptr;
  size_t output_count = 0;
  std::unique_ptr<Event> event;  // of the caller's stream
  lathe_completion completion = nullptr;
  void* context = nullptr;
  bool changes_states = false;

  lathe_error* run() {
    return guarded([&] {
      if (event != nullptr) event->synchronize();
      run_views(*session, options, {inputs.data(), inputs.size(), "inputs"},
                {outputs, output_count, "outputs"});
    });
  }
};

void hold_inputs(AsyncRun& run, const Views<const lathe_view>& inputs) {
  for (size_t i = 0; i < inputs.count(); ++i) {
    lathe_view view{};
    std::memcpy(&view, &inputs[i], sizeof view);
    view.size = sizeof view;
    if (view.value != nullptr) {
      run.values.push_back(std::make_unique<lathe_tensor>(*view.value));
      view.value = run.values.back().get();
    }
    run.inputs.push_back(view);
  }
}

lathe_error* run_async(lathe_session* session, const lathe_run_options* given,
                       const lathe_view* inputs, size_t input_count, lathe_view* outputs,
                       size_t output_count, lathe_completion completion, void* context) {
  return guarded([&] {
    auto run = std::make_shared<AsyncRun>();
    run->session = demand(session, "session").open;
    run->options = known(given);
    check(completion != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL",
          "completion");
    run->completion = completion;
    run->context = context;
    const Module& main = run->session->program().main();
    check(input_count <= main.parameters().size() && output_count <= main.results().size(),
          {ErrorKind::invalid_argument, reason::kInputCount},
          "got {} inputs and {} outputs, '{}' has {} and {}", input_count, output_count,
          escape(run->session->program().name), main.parameters().size(), main.results().size());
    hold_inputs(*run, {inputs, input_count, "inputs"});
    static_cast<void>(Views<lathe_view>(outputs, output_count, "outputs"));
    run->outputs = outputs;
    run->output_count = output_count;
    if (lathe_stream* stream = run->options.stream) {
      check_stream(*run->session, *stream);
      const std::scoped_lock lock(stream->mutex);
      run->event = stream->device->device->make_event();
      stream->stream->record(*run->event);
      run->options.stream = nullptr;
    }
    run->changes_states = !run->session->session->plan().stateless();
    if (run->changes_states && run->session->in_flight.exchange(true)) {
      fail({ErrorKind::invalid_argument, reason::kBusy},
           "session of '{}' has a run in flight, which changes its states: wait for its completion "
           "or create one session per run",
           escape(run->session->program().name));
    }
    try {
      RunThreads::present().post([run] {
        lathe_error* error = run->run();
        if (run->changes_states) run->session->in_flight.store(false);
        run->values.clear();
        run->completion(run->context, error);
      });
    } catch (...) {
      if (run->changes_states) run->session->in_flight.store(false);
      throw;
    }
  });
}

lathe_error* create_environment(const lathe_environment_options* given, lathe_environment** out) {
  return guarded([&] {
    demand(out, "environment");
    const lathe_environment_options options = known(given);
    constexpr int kMostThreads = 1024;
    check(options.threads >= 0 && options.threads <= kMostThreads, ErrorKind::invalid_argument,
          "threads is {}, expected 0 to {}", options.threads, kMostThreads);
    *out = new lathe_environment{std::make_shared<Environment>(options.threads)};
  });
}

}  // namespace

void add_async_runs(lathe_api& api) { api.session_run_async = run_async; }

void add_environments(lathe_api& api) {
  api.environment_create = create_environment;
  api.environment_free = [](lathe_environment* environment) { delete environment; };
}

}  // namespace lathe::capi
