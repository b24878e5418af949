// SPDX-License-Identifier: MIT
#include <atomic>

#include "capi/handles.h"
#include "runtime/environment.h"

namespace {

// Adapts the caller's allocator. Deletes itself after its owner's release and its last
// deallocation: results outlive sessions.
class ForeignAllocator final : public lathe::Allocator {
 public:
  explicit ForeignAllocator(const lathe_allocator& given) : given_(given) {}
  void* allocate(size_t bytes, size_t alignment) override {
    void* memory = given_.allocate(given_.context, bytes, alignment);
    if (memory != nullptr) references_.fetch_add(1, std::memory_order_relaxed);
    return memory;
  }
  void deallocate(void* pointer, size_t bytes) noexcept override {
    given_.deallocate(given_.context, pointer, bytes);
    drop_reference();
  }
  struct Retire {
    void operator()(ForeignAllocator* allocator) const noexcept { allocator->drop_reference(); }
  };

 private:
  void drop_reference() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  lathe_allocator given_;
  std::atomic<int64_t> references_{1};
};

}  // namespace

struct lathe_session {
  std::shared_ptr<lathe::Environment> environment;
  std::unique_ptr<ForeignAllocator, ForeignAllocator::Retire> allocator;
  std::unique_ptr<lathe::Session> session;
};

namespace lathe::capi {
namespace {

lathe_error* create(const lathe_plan* plan, const lathe_session_options* given,
                    lathe_session** out) {
  return guarded([&] {
    demand(out, "session");
    const lathe_session_options options = known(given);
    constexpr int kMostThreads = 1024;
    check(options.threads >= 0 && options.threads <= kMostThreads, ErrorKind::invalid_argument,
          "threads is {}, expected 0 to {}", options.threads, kMostThreads);
    check(options.memory_limit >= 0, ErrorKind::invalid_argument,
          "memory_limit is {}, expected bytes or 0", options.memory_limit);
    auto handle = std::make_unique<lathe_session>();
    handle->environment = options.threads == 0 ? Environment::process()
                                               : std::make_shared<Environment>(options.threads);
    SessionOptions session;
    session.memory_limit = options.memory_limit;
    session.pool = &handle->environment->pool();
    if (options.allocator != nullptr) {
      const lathe_allocator allocator = known(options.allocator);
      check(allocator.allocate != nullptr && allocator.deallocate != nullptr,
            ErrorKind::invalid_argument, "allocator->{} is NULL",
            allocator.allocate == nullptr ? "allocate" : "deallocate");
      handle->allocator.reset(new ForeignAllocator(allocator));
      session.allocator = handle->allocator.get();
    }
    if (options.log != nullptr) {
      session.warn = [log = options.log, context = options.log_context](std::string_view text) {
        log(context, 0, std::string(text).c_str());
      };
    }
    handle->session = std::make_unique<Session>(demand(plan, "plan").plan, session);
    *out = handle.release();
  });
}

// The results of one run: bound tensors, memory from the callback, or new tensors.
class Run {
 public:
  Run(lathe_session& session, const lathe_run_options& options, lathe_tensor** outputs,
      size_t output_count)
      : session_(session), options_(options), outputs_(outputs) {
    const Module& main = session.session->plan().program->main();
    check(output_count == main.results().size(), ErrorKind::invalid_argument,
          "got {} outputs, '{}' has {}", output_count,
          escape(session.session->plan().program->name), main.results().size());
    for (size_t i = 0; i < output_count; ++i) {
      const bool is_bound = outputs[i] != nullptr && outputs[i]->box.is_tensor();
      bound_.push_back(is_bound ? outputs[i]->box.tensor() : Tensor());
      made_.emplace_back();
    }
  }

  void run(std::span<const Box> inputs) {
    RunOptions options;
    if (options_.cancel != nullptr) options.cancel = &options_.cancel->token;
    if (options_.timeout_seconds > 0) {
      options.deadline =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                             std::min(options_.timeout_seconds, 1e9)));
    }
    const OutputCallback callback = [this](int index, ElementType type,
                                           std::span<const int64_t> dims) {
      return memory_for(index, type, dims);
    };
    options.outputs = bound_;
    if (options_.output != nullptr) options.callback = &callback;
    std::vector<Box> results = session_.session->run(inputs, options);
    for (size_t i = 0; i < results.size(); ++i) hand_out(i, std::move(results[i]));
  }

 private:
  TensorView memory_for(int index, ElementType type, std::span<const int64_t> dims) {
    const Dims extents(dims.begin(), dims.end());
    const int64_t bytes = bytes_for(type, element_count(dims));
    void* memory =
        options_.output(options_.output_context, static_cast<size_t>(index), to_c(type),
                        dims.data(), static_cast<int>(dims.size()), static_cast<size_t>(bytes));
    check(memory != nullptr || bytes == 0, ErrorKind::out_of_memory,
          "the output callback returned no memory for output {} ({})", index,
          to_string(type, dims));
    Tensor& made = made_[static_cast<size_t>(index)];
    made = Tensor(type, extents, Tensor::dense_strides(extents), memory, nullptr);
    return made.view();
  }

  void hand_out(size_t index, Box result) {
    if (outputs_[index] != nullptr && bound_[index].data() != nullptr) return;
    if (made_[index].data() != nullptr) result = Box{made_[index]};
    if (outputs_[index] != nullptr) {
      outputs_[index]->box = std::move(result);
    } else {
      outputs_[index] = new lathe_tensor{std::move(result)};
    }
  }

  lathe_session& session_;
  const lathe_run_options& options_;
  lathe_tensor** outputs_;
  std::vector<Tensor> bound_;
  std::vector<Tensor> made_;
};

lathe_error* run(lathe_session* session, const lathe_run_options* given,
                 lathe_tensor* const* inputs, size_t input_count, lathe_tensor** outputs,
                 size_t output_count) {
  return guarded([&] {
    const lathe_run_options options = known(given);
    check((inputs != nullptr || input_count == 0) && (outputs != nullptr || output_count == 0),
          ErrorKind::invalid_argument, "argument '{}' is NULL",
          inputs == nullptr && input_count > 0 ? "inputs" : "outputs");
    std::vector<Box> boxes;
    for (size_t i = 0; i < input_count; ++i) {
      boxes.push_back(demand(inputs[i], fmt::format("inputs[{}]", i)).box);
    }
    Run(demand(session, "session"), options, outputs, output_count).run(boxes);
  });
}

lathe_error* reset(lathe_session* session) {
  return guarded([&] { demand(session, "session").session->reset(); });
}

lathe_error* length(const lathe_session* session, const char* state, int64_t* out) {
  return guarded([&] {
    demand(out, "length") = demand(session, "session").session->length(&demand(state, "state"));
  });
}

lathe_error* truncate(lathe_session* session, int64_t rows) {
  return guarded([&] { demand(session, "session").session->truncate(rows); });
}

lathe_error* memory(const lathe_session* session, lathe_memory_use* use) {
  return guarded([&] {
    const MemoryBudget& budget = demand(session, "session").session->memory();
    lathe_memory_use out{};
    out.size = demand(use, "use").size;
    out.now = budget.used();
    out.peak = budget.peak();
    check(out.size >= sizeof(size_t), ErrorKind::invalid_argument,
          "use->size is {}: set it to sizeof(lathe_memory_use)", out.size);
    std::memcpy(use, &out, std::min(out.size, sizeof out));
  });
}

}  // namespace

void add_sessions(lathe_api& api) {
  api.session_create = create;
  api.session_run = run;
  api.session_reset = reset;
  api.session_length = length;
  api.session_truncate = truncate;
  api.session_memory = memory;
  api.session_free = [](lathe_session* session) { delete session; };
}

}  // namespace lathe::capi

extern "C" const lathe_api* lathe_get_api(uint32_t version) {
  static const lathe_api api = [] {
    lathe_api table{};
    table.size = sizeof table;
    table.version = LATHE_API_VERSION;
    lathe::capi::add_errors(table);
    lathe::capi::add_programs(table);
    lathe::capi::add_plans(table);
    lathe::capi::add_tensors(table);
    lathe::capi::add_sessions(table);
    lathe::capi::add_tokenizers(table);
    lathe::capi::add_encodings(table);
    lathe::capi::add_chat_templates(table);
    lathe::capi::add_models(table);
    lathe::capi::add_generators(table);
    lathe::capi::add_generator_inputs(table);
    lathe::capi::add_sequences(table);
    return table;
  }();
  return version >= 1 && version <= LATHE_API_VERSION ? &api : nullptr;
}
