// SPDX-License-Identifier: MIT
#include <atomic>

#include "capi/session.h"
#include "ir/model_info.h"
#include "plan/device_copies.h"

namespace lathe::capi {

// Adapts the caller's allocator. Deletes itself after its owner's release and its last
// deallocation: results outlive sessions.
class ForeignAllocator final : public Allocator {
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
  void drop_reference() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  lathe_allocator given_;
  std::atomic<int64_t> references_{1};
};

void RetireAllocator::operator()(ForeignAllocator* allocator) const noexcept {
  allocator->drop_reference();
}

namespace {

// One box per input, empty without a default; null if no input has one.
std::shared_ptr<const std::vector<Box>> defaults_of(const Program& program) {
  if (program.model == nullptr) return nullptr;
  const auto& parameters = program.main().parameters();
  auto boxes = std::make_shared<std::vector<Box>>(parameters.size());
  bool any = false;
  for (const ModelInfo::Default& fallback : program.model->defaults) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i]->name() != fallback.name || fallback.tensor.dims() != fallback.dims ||
          fallback.tensor.owner() == nullptr) {
        continue;
      }
      (*boxes)[i] = Box{fallback.tensor};
      any = true;
    }
  }
  return any ? boxes : nullptr;
}

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
    check(options.environment == nullptr || options.threads == 0, ErrorKind::invalid_argument,
          "threads is {}, but the environment has threads of its own: set one of them",
          options.threads);
    auto handle = std::make_shared<OpenSession>();
    if (options.environment != nullptr) {
      handle->environment = options.environment->environment;
    } else {
      handle->environment = options.threads == 0 ? Environment::process()
                                                 : std::make_shared<Environment>(options.threads);
    }
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
    handle->defaults = defaults_of(*plan->plan->program);
    find_host_uses(*handle);
    *out = new lathe_session{std::move(handle)};
  });
}

// The session, while no asynchronous run changes its states.
Session& idle(const lathe_session* session) {
  const OpenSession& open = *demand(session, "session").open;
  check_idle(open);
  return *open.session;
}

lathe_error* reset(lathe_session* session) {
  return guarded([&] { idle(session).reset(); });
}

lathe_error* length(const lathe_session* session, const char* state, int64_t* out) {
  return guarded([&] { demand(out, "length") = idle(session).length(&demand(state, "state")); });
}

lathe_error* truncate(lathe_session* session, int64_t rows) {
  return guarded([&] { idle(session).truncate(rows); });
}

lathe_error* memory(const lathe_session* session, lathe_memory_use* use) {
  return guarded([&] {
    const MemoryBudget& budget = demand(session, "session").open->session->memory();
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

RunOptions to_run_options(const lathe_run_options& options) {
  RunOptions out;
  if (options.cancel != nullptr) out.cancel = &options.cancel->token;
  if (options.timeout_seconds > 0) {
    out.deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double>(std::min(options.timeout_seconds, 1e9)));
  }
  return out;
}

Tensor memory_of_callback(const lathe_run_options& options, size_t index, ElementType type,
                          std::span<const int64_t> dims) {
  const Dims extents(dims.begin(), dims.end());
  const int64_t bytes = bytes_for(type, element_count(dims));
  void* memory = options.output(options.output_context, index, to_c(type), dims.data(),
                                static_cast<int>(dims.size()), static_cast<size_t>(bytes));
  check(memory != nullptr || bytes == 0, {ErrorKind::out_of_memory, reason::kCallback},
        "the output callback returned no memory for output {} ({})", index, to_string(type, dims));
  return Tensor(type, extents, Tensor::dense_strides(extents), memory, nullptr);
}

const Box* default_of(const OpenSession& session, size_t input) {
  if (session.defaults == nullptr || input >= session.defaults->size()) return nullptr;
  const Box& box = (*session.defaults)[input];
  return box.empty() ? nullptr : &box;
}

void check_idle(const OpenSession& session) {
  if (!session.in_flight.load(std::memory_order_acquire)) return;
  fail({ErrorKind::invalid_argument, reason::kBusy},
       "session of '{}' has a run in flight, which changes its states: wait for its completion or "
       "create one session per run",
       escape(session.program().name));
}

namespace {

std::string name_of(const Launch& launch) {
  return launch.instruction == nullptr ? "copy" : std::string(launch.instruction->op().name);
}

}  // namespace

void find_host_uses(OpenSession& session) {
  const Plan& plan = session.session->plan();
  session.device = device_of(plan.device);
  if (session.device == nullptr) return;
  const ModulePlan& main = plan.modules.front();
  session.host_readers.assign(main.inputs.size(), "");
  session.host_writers.assign(main.results.size(), "");
  for (size_t i = 0; i < main.inputs.size(); ++i) {
    const SlotId slot = main.inputs[i];
    if (main.slots[static_cast<size_t>(slot)].kind != SlotKind::input) {
      session.host_readers[i] = "as a value of unknown rank or of strings";
    }
    for (const Launch& launch : main.launches) {
      const bool reads = std::ranges::find(launch.operands, slot) != launch.operands.end();
      if (reads && !is_device_copy(launch)) session.host_readers[i] = name_of(launch);
    }
  }
  for (size_t i = 0; i < main.results.size(); ++i) {
    const SlotId slot = main.results[i];
    bool written = false;
    for (const Launch& launch : main.launches) {
      if (std::ranges::find(launch.results, slot) == launch.results.end()) continue;
      written = true;
      if (!is_device_copy(launch)) session.host_writers[i] = name_of(launch);
    }
    const bool is_output = main.slots[static_cast<size_t>(slot)].kind == SlotKind::output;
    if (!written || !is_output)
      session.host_writers[i] = "as an input, a constant or a value of strings";
  }
}

void add_sessions(lathe_api& api) {
  api.session_create = create;
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
    lathe::capi::add_runs(table);
    lathe::capi::add_commands(table);
    lathe::capi::add_program_info(table);
    lathe::capi::add_program_tools(table);
    lathe::capi::add_onnx_graphs(table);
    lathe::capi::add_values(table);
    lathe::capi::add_settings(table);
    lathe::capi::add_modules(table);
    lathe::capi::add_ops(table);
    lathe::capi::add_custom_ops(table);
    lathe::capi::add_devices(table);
    lathe::capi::add_dlpack(table);
    lathe::capi::add_environments(table);
    lathe::capi::add_async_runs(table);
    lathe::capi::add_plan_info(table);
    lathe::capi::add_compiled_files(table);
    lathe::capi::add_sentence_encoders(table);
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
