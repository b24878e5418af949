// SPDX-License-Identifier: MIT
#include "runtime/session.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "ir/infer.h"
#include "runtime/assumption.h"

namespace lathe {
namespace {

std::string describe(const Box& box) {
  if (box.is_tensor()) return to_string(box.tensor().type(), box.tensor().dims());
  if (box.is_sequence()) return fmt::format("a sequence of {}", box.sequence().size());
  return box.empty() ? "nothing" : "a map";
}

// Clones the program with one symbol per axis of an input, without shared symbols.
std::unique_ptr<Program> with_separate_symbols(const Program& source) {
  std::unique_ptr<Program> program = source.clone();
  Module& main = program->main();
  std::set<std::string> seen;
  for (const auto& parameter : main.parameters()) {
    if (!parameter->type().is_ranked()) continue;
    Type type = parameter->type();
    for (Dim& dim : *type.dims) {
      const SymbolRef symbol = dim.as_symbol();
      if (symbol == nullptr || seen.insert(symbol->name).second) continue;
      dim = program->add_symbol(symbol->name, SymbolKind::bound, symbol->range, symbol->preferred);
    }
    parameter->set_type(std::move(type));
  }
  main.guards().clear();
  infer(main);
  return program;
}

}  // namespace

// The caller's memory for the results of main.
class Session::Output final : public Receiver {
 public:
  Output(Session& session, const RunOptions& options, std::span<Box> results)
      : session_(session), options_(options), results_(results) {}

  TensorView receive(int index, ElementType type, std::span<const int64_t> dims) override {
    const auto at = static_cast<size_t>(index);
    if (at < options_.outputs.size() && options_.outputs[at].data() != nullptr) {
      const Tensor& bound = options_.outputs[at];
      if (!fits(bound, type, dims)) {
        fail(ErrorKind::invalid_argument, "output '{}' is {}, but the bound tensor is {}", name(at),
             to_string(type, dims), to_string(bound.type(), bound.dims()));
      }
      results_[at].value = bound;
      return bound.view();
    }
    if (options_.callback != nullptr) {
      const TensorView view = (*options_.callback)(index, type, dims);
      if (view.data == nullptr && view.count() != 0) {
        fail(ErrorKind::out_of_memory, "the callback returned no memory for output '{}' ({})",
             name(at), to_string(type, dims));
      }
      return view;
    }
    Box& result = results_[at];
    if (!result.is_tensor() || !fits(result.tensor(), type, dims) || !result.tensor().is_dense() ||
        !held_alone(result.tensor())) {
      result = Box{Tensor(type, Dims(dims.begin(), dims.end()), *session_.budget_)};
    }
    return result.tensor().view();
  }
  void receive_box(int index, Box box) override {
    results_[static_cast<size_t>(index)] = std::move(box);
  }

 private:
  static bool fits(const Tensor& tensor, ElementType type, std::span<const int64_t> dims) {
    return tensor.type() == type &&
           std::equal(tensor.dims().begin(), tensor.dims().end(), dims.begin(), dims.end());
  }
  std::string name(size_t at) const {
    return escape(session_.plan_->program->main().result_names()[at]);
  }

  Session& session_;
  const RunOptions& options_;
  std::span<Box> results_;
};

Session::Session(std::shared_ptr<const Plan> plan, SessionOptions options)
    : plan_(std::move(plan)),
      options_(std::move(options)),
      own_budget_(options_.budget != nullptr
                      ? nullptr
                      : new MemoryBudget(
                            options_.allocator != nullptr ? *options_.allocator : host_allocator(),
                            options_.memory_limit)),
      budget_(options_.budget != nullptr ? options_.budget : own_budget_.get()),
      run_context_(*budget_) {
  run_context_.queue = plan_->make_queue();
  run_context_.pool = options_.pool;
  run_context_.symbols.assign(plan_->symbols.size(), -1);
  for (const State& state : plan_->program->states()) {
    run_context_.states.push_back(std::make_unique<StateStore>(
        state, *budget_, run_context_.counters, options_.reserve_rows));
  }
  frame_ = std::make_unique<Frame>(*plan_, 0, run_context_);
  arguments_.resize(plan_->program->main().parameters().size());
}

Session::~Session() = default;

std::vector<Box> Session::run(std::span<const Box> inputs, const RunOptions& options) {
  std::vector<Box> results(plan_->program->main().results().size());
  run(inputs, results, options);
  return results;
}

void Session::run(std::span<const Box> inputs, std::span<Box> results, const RunOptions& options) {
  // fail() in a branch, not check(): formatting the arguments allocates.
  if (busy_.exchange(true, std::memory_order_acquire)) {
    fail(ErrorKind::invalid_argument,
         "session of '{}' is in use by another thread: create one session per thread",
         escape(plan_->program->name));
  }
  struct Release {
    std::atomic<bool>& busy;
    ~Release() { busy.store(false, std::memory_order_release); }
  } const release{busy_};
  if (poisoned_) {
    fail(ErrorKind::device, "session of '{}' failed with a device error: create a new session",
         escape(plan_->program->name));
  }
  check_inputs(inputs);
  if (separate_ != nullptr) {
    separate_->run(inputs, results, options);
    return;
  }
  try {
    run_once(inputs, results, options);
  } catch (const AssumptionFailure& failure) {
    if (!plan_->stateless()) throw Error(ErrorKind::invalid_argument, failure.message());
    run_separate(inputs, results, options, failure);
  }
}

void Session::check_inputs(std::span<const Box> inputs) const {
  const auto& parameters = plan_->program->main().parameters();
  if (inputs.size() != parameters.size()) {
    fail(ErrorKind::invalid_argument, "got {} inputs, '{}' requires {}", inputs.size(),
         escape(plan_->program->name), parameters.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = parameters[i]->type();
    const Box& box = inputs[i];
    bool fits = !type.is_tensor() || box.is_tensor();
    if (type.is_tensor() && fits) {
      const Tensor& tensor = box.tensor();
      fits = tensor.type() == type.element && (!type.dims || tensor.rank() == type.rank());
    } else if (type.kind == Type::Kind::sequence) {
      fits = box.is_sequence();
    }
    if (fits) continue;
    fail(ErrorKind::invalid_argument, "input '{}' is {}, expected {}",
         escape(parameters[i]->name()), describe(box), escape(type.to_string()));
  }
}

// Binds the symbols of the states' lengths. States that share a symbol must have equal lengths.
void Session::bind_lengths() {
  for (const auto& store : run_context_.states) {
    const State& state = store->state();
    if (state.axis < 0) continue;
    const SymbolRef symbol = (*state.type.dims)[static_cast<size_t>(state.axis)].as_symbol();
    for (size_t i = 0; i < plan_->symbols.size(); ++i) {
      if (symbol == nullptr || plan_->symbols[i]->name != symbol->name) continue;
      check(run_context_.symbols[i] < 0 || run_context_.symbols[i] == store->length(),
            ErrorKind::internal, "states of length '{}' have {} and {} rows", symbol->name,
            run_context_.symbols[i], store->length());
      run_context_.symbols[i] = store->length();
    }
  }
}

// Binds symbols of axes that only the states' content determines.
void Session::bind_state_dims() {
  for (const StateDim& dim : plan_->state_dims) {
    const Dims held = run_context_.states[static_cast<size_t>(dim.state)]->held();
    const int64_t extent = held.empty() ? 0 : held[static_cast<size_t>(dim.axis)];
    run_context_.symbols[static_cast<size_t>(dim.symbol)] = extent;
  }
}

void Session::run_once(std::span<const Box> inputs, std::span<Box> results,
                       const RunOptions& options) {
  std::fill(run_context_.symbols.begin(), run_context_.symbols.end(), -1);
  run_context_.cancel = options.cancel;
  run_context_.deadline = options.deadline;
  run_context_.profiler = options.profiler;
  run_context_.step = options.step;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool boxed = plan_->program->main().parameters()[i]->type().is_boxed();
    arguments_[i] = boxed ? Argument{{}, &inputs[i]} : Argument{inputs[i].tensor().view(), nullptr};
  }
  Output output(*this, options, results);
  try {
    run_context_.check_cancelled();
    bind_lengths();
    bind_state_dims();
    frame_->run(arguments_, output);
    run_context_.check_cancelled();
  } catch (...) {
    // Enqueued work still uses the caller's memory.
    try {
      run_context_.queue->wait();
    } catch (const Error& error) {
      poisoned_ = poisoned_ || error.kind() == ErrorKind::device;
    } catch (...) {  // report the first failure
    }
    for (const auto& state : run_context_.states) state->rollback();
    throw;
  }
  for (const auto& state : run_context_.states) state->commit(options.rows);
  ++run_context_.counters.runs;
}

void Session::run_separate(std::span<const Box> inputs, std::span<Box> results,
                           const RunOptions& options, const Error& why) {
  std::shared_ptr<const Plan> plan;
  {
    const std::lock_guard lock(plan_->separate_mutex);
    if (plan_->separate == nullptr) {
      std::unique_ptr<Program> program;
      try {
        program = with_separate_symbols(*plan_->source);
      } catch (const Error& error) {
        Error report(ErrorKind::invalid_argument, why.message());
        report.note(fmt::format("without this shared symbol: {}", error.message()));
        throw report;
      }
      plan_->separate = plan_->compile(std::move(program));
      ++plan_->compilations;
      const std::string text = fmt::format("{}: recompiled with separate symbols", why.message());
      options_.warn ? options_.warn(text) : log_warning(text);
    }
    plan = plan_->separate;
  }
  SessionOptions inner = options_;
  inner.budget = budget_;
  separate_ = std::make_unique<Session>(plan, std::move(inner));
  separate_->run(inputs, results, options);
}

StateStore& Session::store(std::string_view state) const {
  for (const auto& store : run_context_.states) {
    if (store->state().name == state) return *store;
  }
  fail(ErrorKind::invalid_argument, "unknown state '{}'", escape(state));
}

int64_t Session::length(std::string_view state) const { return store(state).length(); }

void Session::reset() {
  for (const auto& state : run_context_.states) state->reset();
}

void Session::truncate(int64_t length) {
  for (const auto& state : run_context_.states) {
    if (state->state().kind == StateKind::append) state->truncate(length);
  }
}

void Session::copy_states_from(const Session& other) {
  check(other.plan_ == plan_, ErrorKind::invalid_argument,
        "cannot copy states: sessions have different plans ('{}', '{}')",
        escape(plan_->program->name), escape(other.plan_->program->name));
  for (size_t i = 0; i < run_context_.states.size(); ++i) {
    run_context_.states[i]->copy_from(*other.run_context_.states[i]);
  }
}

SharedSession::SharedSession(std::shared_ptr<const Plan> plan, SessionOptions options)
    : plan_(std::move(plan)), options_(std::move(options)) {
  check(plan_->stateless(), ErrorKind::invalid_argument,
        "'{}' has {} states: create one session per thread", escape(plan_->program->name),
        plan_->program->states().size());
}

SharedSession::~SharedSession() = default;

std::vector<Box> SharedSession::run(std::span<const Box> inputs, const RunOptions& options) {
  std::vector<Box> results(plan_->program->main().results().size());
  run(inputs, results, options);
  return results;
}

void SharedSession::run(std::span<const Box> inputs, std::span<Box> results,
                        const RunOptions& options) {
  std::unique_ptr<Session> session = idle_.acquire();
  if (session == nullptr) session = std::make_unique<Session>(plan_, options_);
  session->run(inputs, results, options);
  idle_.release(std::move(session));
}

}  // namespace lathe
