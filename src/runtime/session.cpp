// SPDX-License-Identifier: MIT
#include "runtime/session.h"

#include <algorithm>
#include <set>

#include "base/error_reason.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "ir/compiled_source.h"
#include "ir/infer.h"
#include "runtime/assumption.h"

namespace lathe {
namespace {

std::string describe(const Box& box) {
  if (box.is_tensor()) return to_string(box.tensor().type(), box.tensor().dims());
  if (box.is_sequence()) return fmt::format("a sequence of {}", box.sequence().size());
  return box.empty() ? "nothing" : "a map";
}

// Whether the type can hold the value; ranks are not checked.
bool holds(const Type& type, const Box& box) {
  switch (type.kind) {
    case Type::Kind::tensor:
      return box.is_tensor() && box.tensor().type() == type.element;
    case Type::Kind::sequence:
      return box.is_sequence() && std::ranges::all_of(box.sequence(), [&](const Box& item) {
               return holds(*type.item, item);
             });
    case Type::Kind::optional:
      return box.empty() || holds(*type.item, box);
    case Type::Kind::map:
      return !box.empty() && !box.is_tensor() && !box.is_sequence();
  }
  return false;
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

// One run: of boxes, or of views.
struct Session::Call {
  std::span<const Box> boxes;
  std::span<const Argument> views;
  Receiver& receiver;
  const RunOptions& options;
  size_t size() const { return boxes.empty() ? views.size() : boxes.size(); }
};

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
        fail({ErrorKind::invalid_argument, bound.type() == type ? reason::kShape : reason::kType},
             "output '{}' is {}, but the bound tensor is {}", name(at), to_string(type, dims),
             to_string(bound.type(), bound.dims()));
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
      const bool there = at < options_.devices.size() && options_.devices[at] != nullptr;
      Dims own(dims.begin(), dims.end());
      result = Box{there ? make_tensor(*options_.devices[at], type, std::move(own))
                         : Tensor(type, std::move(own), *session_.budget_)};
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

// Borrows an execution for one run.
class Session::Lease {
 public:
  explicit Lease(Session& session) : session_(session) {
    if (session.own_execution_ != nullptr) return;
    idle_ =
        session.own_idle_ != nullptr ? session.own_idle_.get() : &idle_executions(*session.plan_);
    borrowed_ = idle_->acquire();
    if (borrowed_ != nullptr && borrowed_->lend(*session.budget_, session.device_budget_.get())) {
      return;
    }
    // None idle, or one that holds more than this session may use.
    if (borrowed_ != nullptr) idle_->release(std::move(borrowed_));
    borrowed_ = std::make_unique<Execution>(*session.plan_, session.budget_->source());
    borrowed_->lend(*session.budget_, session.device_budget_.get());
  }
  ~Lease() {
    if (borrowed_ == nullptr) return;
    borrowed_->take_back();
    idle_->release(std::move(borrowed_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Execution& operator*() const {
    return borrowed_ != nullptr ? *borrowed_ : *session_.own_execution_;
  }

 private:
  Session& session_;
  ExecutionPool* idle_ = nullptr;
  std::unique_ptr<Execution> borrowed_;
};

Session::Session(std::shared_ptr<const Plan> plan, SessionOptions options)
    : plan_(std::move(plan)),
      options_(std::move(options)),
      own_budget_(options_.budget != nullptr
                      ? nullptr
                      : new MemoryBudget(
                            options_.allocator != nullptr ? *options_.allocator : host_allocator(),
                            options_.memory_limit)),
      budget_(options_.budget != nullptr ? options_.budget : own_budget_.get()) {
  if (plan_->device != nullptr) {
    device_budget_.reset(new MemoryBudget(plan_->device->allocator(), options_.memory_limit));
  }
  if (&budget_->source() != &host_allocator()) own_idle_ = std::make_unique<ExecutionPool>();
  if (!plan_->stateless()) make_states();
}

void Session::make_states() {
  const bool on_device = plan_->device != nullptr;
  if (on_device) {
    own_execution_ = std::make_unique<Execution>(*plan_, budget_->source());
    own_execution_->lend(*budget_, device_budget_.get());
  }
  const StateMemory memory{
      on_device ? *plan_->device : host_device(), on_device ? *device_budget_ : *budget_,
      on_device ? own_execution_->context().stream.get() : nullptr, *plan_->copy};
  for (const State* state : plan_->stored) {
    states_.push_back(
        std::make_unique<StateStore>(*state, memory, counters_, options_.reserve_rows));
  }
}

Session::~Session() {
  states_.clear();
  if (own_execution_ != nullptr) own_execution_->take_back();
}

Counters Session::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::vector<Box> Session::run(std::span<const Box> inputs, const RunOptions& options) {
  std::vector<Box> results(plan_->program->main().results().size());
  run(inputs, results, options);
  return results;
}

void Session::run(std::span<const Box> inputs, std::span<Box> results, const RunOptions& options) {
  Output output(*this, options, results);
  run(Call{inputs, {}, output, options});
}

void Session::run(std::span<const Argument> inputs, Receiver& receiver, const RunOptions& options) {
  run(Call{{}, inputs, receiver, options});
}

void Session::run(const Call& call) {
  if (plan_->stateless()) return run_here(call);
  // fail() in a branch, not check(): formatting the arguments allocates.
  if (busy_.exchange(true, std::memory_order_acquire)) {
    fail({ErrorKind::invalid_argument, reason::kBusy},
         "session of '{}' is in use by another thread: create one session per thread",
         escape(plan_->program->name));
  }
  struct Release {
    std::atomic<bool>& busy;
    ~Release() { busy.store(false, std::memory_order_release); }
  } const release{busy_};
  run_here(call);
}

void Session::run_here(const Call& call) {
  if (poisoned_) {
    Error report(ErrorKind::device,
                 fmt::format("session of '{}' failed with a device error: create a new session",
                             escape(plan_->program->name)));
    const std::lock_guard lock(mutex_);
    throw report.note(poison_);
  }
  check_inputs(call);
  if (is_separate_.load(std::memory_order_acquire)) {
    separate_->run(call);
    return;
  }
  if (const CompiledSource* file = compiled_source(*plan_->program)) {
    file->check_requested(options_.pool);
  }
  try {
    const Lease lease(*this);
    run_once(*lease, call);
  } catch (const AssumptionFailure& failure) {
    if (!plan_->stateless()) {
      throw Error({ErrorKind::invalid_argument, failure.reason()}, failure.message());
    }
    run_separate(call, failure);
  }
}

void Session::check_inputs(const Call& call) const {
  const auto& parameters = plan_->program->main().parameters();
  if (call.size() != parameters.size()) {
    fail({ErrorKind::invalid_argument, reason::kInputCount}, "got {} inputs, '{}' requires {}",
         call.size(), escape(plan_->program->name), parameters.size());
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Type& type = parameters[i]->type();
    const Box* box = call.boxes.empty() ? call.views[i].box : &call.boxes[i];
    bool fits = !type.is_tensor() && box != nullptr && holds(type, *box);
    bool fits_type = fits;
    if (type.is_tensor() && (box == nullptr || box->is_tensor())) {
      const ElementType element = box != nullptr ? box->tensor().type() : call.views[i].view.type;
      const int rank = box != nullptr ? box->tensor().rank() : call.views[i].view.rank;
      fits_type = element == type.element;
      fits = fits_type && (!type.dims || rank == type.rank());
    }
    if (fits) continue;
    const std::string given =
        box != nullptr ? describe(*box)
                       : to_string(call.views[i].view.type, call.views[i].view.extents());
    fail({ErrorKind::invalid_argument, fits_type ? reason::kRank : reason::kType},
         "input '{}' is {}, expected {}", escape(parameters[i]->name()), given,
         escape(type.to_string()));
  }
}

// Binds the symbols of the states' lengths. States that share a symbol must have equal lengths.
void Session::bind_lengths(RunContext& context) const {
  for (const auto& store : states_) {
    const State& state = store->state();
    if (state.axis < 0) continue;
    const SymbolRef symbol = (*state.type.dims)[static_cast<size_t>(state.axis)].as_symbol();
    for (size_t i = 0; i < plan_->symbols.size(); ++i) {
      if (symbol == nullptr || plan_->symbols[i]->name != symbol->name) continue;
      check(context.symbols[i] < 0 || context.symbols[i] == store->length(), ErrorKind::internal,
            "states of length '{}' have {} and {} rows", symbol->name, context.symbols[i],
            store->length());
      context.symbols[i] = store->length();
    }
  }
}

// Binds symbols of axes that only the states' content determines.
void Session::bind_state_dims(RunContext& context) const {
  for (const StateDim& dim : plan_->state_dims) {
    const Dims held = states_[static_cast<size_t>(dim.state)]->held();
    const int64_t extent = held.empty() ? 0 : held[static_cast<size_t>(dim.axis)];
    context.symbols[static_cast<size_t>(dim.symbol)] = extent;
  }
}

// Binds the symbols of paged states and checks the memory that the run brings.
void Session::bind_pages(RunContext& context) const {
  // fail() in branches, not check(): formatting the arguments allocates.
  if (context.pages.size() != plan_->paged.size()) {
    fail(ErrorKind::invalid_argument, "got the memory of {} paged states, '{}' has {}",
         context.pages.size(), escape(plan_->program->name), plan_->paged.size());
  }
  for (size_t i = 0; i < context.pages.size(); ++i) {
    const TensorView& view = context.pages[i];
    const Type& type = plan_->paged[i]->type;
    if (view.type == type.element && view.rank == type.rank()) continue;
    fail(ErrorKind::invalid_argument, "state '{}' is {}, expected {}",
         escape(plan_->paged[i]->name), to_string(view.type, view.extents()), type.to_string());
  }
  for (const PageDim& dim : plan_->page_dims) {
    const int64_t extent =
        context.pages[static_cast<size_t>(dim.state)].dims[static_cast<size_t>(dim.axis)];
    int64_t expected = dim.constant;
    if (dim.symbol >= 0) {
      int64_t& value = context.symbols[static_cast<size_t>(dim.symbol)];
      if (value < 0) value = extent;
      expected = value;
    }
    if (extent == expected) continue;
    fail(ErrorKind::invalid_argument, "state '{}': axis {} has size {}, expected {}",
         escape(plan_->paged[static_cast<size_t>(dim.state)]->name), dim.axis, extent, expected);
  }
}

// Enqueues a run.
void Session::begin(Execution& execution, const Call& call) {
  const RunOptions& options = call.options;
  RunContext& context = execution.context();
  std::fill(context.symbols.begin(), context.symbols.end(), -1);
  context.budget = budget_;
  context.pool = options_.pool;
  context.states = states_;
  context.cancel = options.cancel;
  context.deadline = options.deadline;
  context.profiler = options.profiler;
  context.pages = options.pages;
  context.counters = {};
  std::vector<Argument>& arguments = execution.arguments();
  for (size_t i = 0; i < call.boxes.size(); ++i) {
    const bool boxed = plan_->program->main().parameters()[i]->type().is_boxed();
    arguments[i] =
        boxed ? Argument{{}, &call.boxes[i]} : Argument{call.boxes[i].tensor().view(), nullptr};
  }
  std::ranges::copy(call.views, arguments.begin());
  context.check_cancelled();
  bind_lengths(context);
  bind_state_dims(context);
  bind_pages(context);
  execution.frame().start(arguments, call.receiver);
}

void Session::run_once(Execution& execution, const Call& call) {
  RunContext& context = execution.context();
  const ThreadPool::Burst burst(options_.pool);
  try {
    begin(execution, call);
    if (context.stream != nullptr) context.stream->synchronize();
    execution.frame().finish(call.receiver);
    context.check_cancelled();
  } catch (const Error& error) {
    poison(error);
    abandon_run(context);
    throw;
  } catch (...) {
    abandon_run(context);
    throw;
  }
  for (const auto& state : states_) state->commit(call.options.rows);
  ++context.counters.runs;
  add_counters(context.counters);
}

class Session::Started final : public StartedRun {
 public:
  Started(Session& session, Receiver& receiver, std::shared_ptr<Stream> stream)
      : session_(session), receiver_(receiver), lease_(session) {
    context().stream = std::move(stream);
  }
  ~Started() override {
    if (!finished_) session_.abandon_run(context());
    context().stream = context().own_stream;
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  void begin(const Call& call) { session_.begin(*lease_, call); }
  void finish() override {
    (*lease_).frame().finish(receiver_);
    ++context().counters.runs;
    session_.add_counters(context().counters);
    finished_ = true;
  }

 private:
  RunContext& context() { return (*lease_).context(); }
  Session& session_;
  Receiver& receiver_;
  const Lease lease_;
  bool finished_ = false;
};

std::unique_ptr<StartedRun> Session::start(std::span<const Argument> inputs, Receiver& receiver,
                                           const RunOptions& options,
                                           std::shared_ptr<Stream> stream) {
  if (!plan_->stateless() || plan_->device == nullptr || poisoned_ || is_separate_) return nullptr;
  const Call call{{}, inputs, receiver, options};
  check_inputs(call);
  auto started = std::make_unique<Started>(*this, receiver, std::move(stream));
  try {
    started->begin(call);
  } catch (const AssumptionFailure&) {
    return nullptr;
  } catch (const Error& error) {
    poison(error);
    throw;
  }
  return started;
}

void Session::add_counters(const Counters& run) {
  const std::lock_guard lock(mutex_);
  counters_.runs += run.runs;
  counters_.launches += run.launches;
  counters_.input_bytes_copied += run.input_bytes_copied;
  counters_.output_bytes_copied += run.output_bytes_copied;
  counters_.layouts += run.layouts;
  counters_.late_compilations += run.late_compilations;
}

// After an error of the device there are no more runs; they report the first of these.
void Session::poison(const Error& error) {
  if (error.kind() != ErrorKind::device) return;
  const std::lock_guard lock(mutex_);
  if (!poisoned_) poison_ = error.message();
  poisoned_ = true;
}

// Undoes a failed run.
void Session::abandon_run(RunContext& context) {
  try {
    // Enqueued work still uses the caller's memory.
    if (context.stream != nullptr) context.stream->synchronize();
  } catch (const Error& error) {
    poison(error);
  } catch (...) {  // the caller gets the first failure
  }
  for (const auto& state : states_) state->rollback();
  add_counters(context.counters);
}

void Session::run_separate(const Call& call, const Error& why) {
  std::shared_ptr<const Plan> plan;
  {
    const std::lock_guard lock(plan_->separate_mutex);
    if (plan_->separate == nullptr) {
      std::unique_ptr<Program> program;
      try {
        const CompiledSource* file = compiled_source(*plan_->program);
        program = with_separate_symbols(file == nullptr ? *plan_->source : *file->portable());
      } catch (const Error& error) {
        Error report({ErrorKind::invalid_argument, why.reason()}, why.message());
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
  {
    const std::lock_guard lock(mutex_);
    if (separate_ == nullptr) {
      SessionOptions inner = options_;
      inner.budget = budget_;
      separate_ = std::make_unique<Session>(plan, std::move(inner));
      is_separate_.store(true, std::memory_order_release);
    }
  }
  separate_->run(call);
}

StateStore& Session::store(std::string_view state) const {
  for (const auto& store : states_) {
    if (store->state().name == state) return *store;
  }
  fail(ErrorKind::invalid_argument, "unknown state '{}'", escape(state));
}

int64_t Session::length(std::string_view state) const { return store(state).length(); }

void Session::reset() {
  for (const auto& state : states_) state->reset();
}

void Session::truncate(int64_t length) {
  for (const auto& state : states_) {
    if (state->state().kind == StateKind::append) state->truncate(length);
  }
}

void Session::copy_states_from(const Session& other) {
  check(other.plan_ == plan_, ErrorKind::invalid_argument,
        "cannot copy states: sessions have different plans ('{}', '{}')",
        escape(plan_->program->name), escape(other.plan_->program->name));
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i]->copy_from(*other.states_[i]);
  }
  if (own_execution_ != nullptr) own_execution_->context().stream->synchronize();
}

}  // namespace lathe
