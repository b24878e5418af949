// SPDX-License-Identifier: MIT
// Runs of sessions, on views of the caller's memory or on handles.
#include "capi/session.h"
#include "runtime/profiler.h"

namespace lathe::capi {
namespace {

// Scratch of a run, kept by its thread so that a run allocates for its results alone.
struct Scratch {
  std::vector<Argument> arguments;
  std::vector<const lathe_view*> inputs;  // by input; null: absent
  std::vector<lathe_view*> outputs;       // by output
  std::vector<lathe_view> unwanted;       // entries of outputs that the caller does not name
  std::vector<Tensor> made;               // results in new tensors or in memory with room
};

// A run inside of a callback of another one gets scratch of its own.
class ScratchLease {
 public:
  ScratchLease() : scratch_(std::exchange(idle(), nullptr)) {
    if (scratch_ == nullptr) scratch_ = std::make_unique<Scratch>();
  }
  ~ScratchLease() {
    scratch_->made.clear();
    idle() = std::move(scratch_);
  }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  Scratch& operator*() const { return *scratch_; }

 private:
  static std::unique_ptr<Scratch>& idle() {
    static thread_local std::unique_ptr<Scratch> scratch;
    return scratch;
  }
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace

void set_view(const lathe_view& given, TensorView& out, const char* what, size_t index) {
  if (given.rank < 0 || given.rank > kMaxRank || (given.rank > 0 && given.dims == nullptr)) {
    fail({ErrorKind::invalid_argument, reason::kRank},
         "{}[{}] has rank {} with dims {}, expected 0 to {}", what, index, given.rank,
         given.dims == nullptr ? "NULL" : "set", kMaxRank);
  }
  out.type = from_c(given.type);
  if (out.type == ElementType::string) {
    fail({ErrorKind::invalid_argument, reason::kType},
         "{}[{}] is of strings, which have no C layout: pass a tensor in 'value'", what, index);
  }
  out.rank = given.rank;
  out.data = given.data;
  const auto rank = static_cast<size_t>(given.rank);
  bool dense = given.strides == nullptr;
  int64_t count = 1;
  for (size_t axis = rank; axis-- > 0;) {
    out.dims[axis] = given.dims[axis];
    out.strides[axis] = dense ? count : given.strides[axis];
    if (given.dims[axis] < 0) {
      fail({ErrorKind::invalid_argument, reason::kShape}, "{}[{}]: axis {} has size {}", what,
           index, axis, given.dims[axis]);
    }
    if (__builtin_mul_overflow(count, given.dims[axis], &count) || count > INT64_MAX / 16) {
      static_cast<void>(element_count({given.dims, rank}));  // throws on overflow
      fail(ErrorKind::out_of_memory, "{}[{}] has {} axes with more than 2^59 elements", what, index,
           rank);
    }
  }
  if (given.data == nullptr && count > 0) {
    fail({ErrorKind::invalid_argument, reason::kMissingInput}, "{}[{}] has no data for {}", what,
         index, to_string(out.type, {given.dims, rank}));
  }
  if (!dense && is_packed(out.type) && !out.is_dense()) {
    fail(ErrorKind::invalid_argument, "{}[{}]: {} must be dense", what, index,
         to_string(out.type, {given.dims, rank}));
  }
}

namespace {

class ViewResults final : public Receiver {
 public:
  ViewResults(OpenSession& session, const lathe_run_options& options, Scratch& scratch)
      : session_(session), options_(options), outputs_(scratch.outputs), made_(scratch.made) {
    made_.resize(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) check_device(i);
  }

  TensorView receive(int index, ElementType type, std::span<const int64_t> dims) override {
    const auto at = static_cast<size_t>(index);
    const lathe_view& given = *outputs_[at];
    Tensor& made = made_[at];
    if (given.value != nullptr && given.value->box.is_tensor()) {
      made = given.value->box.tensor();
      check_fits(at, made.view(), type, dims);
      return made.view();
    }
    if (given.data != nullptr) {
      if (given.bytes > 0) return in_room(at, type, dims);
      TensorView view;
      set_view(given, view, "outputs", at);
      check_fits(at, view, type, dims);
      return view;
    }
    if (stays_on_device(at)) {
      made = make_on(*session_.device, type, Dims(dims.begin(), dims.end()));
    } else if (options_.output != nullptr) {
      made = memory_of_callback(options_, at, type, dims);
    } else {
      made = Tensor(type, Dims(dims.begin(), dims.end()), session_.session->budget());
    }
    return made.view();
  }

  void receive_box(int index, Box box) override {
    const auto at = static_cast<size_t>(index);
    const lathe_view& given = *outputs_[at];
    const bool bound =
        given.value != nullptr ? given.value->box.is_tensor() : given.data != nullptr;
    if (bound && box.is_tensor() && box.tensor().type() != ElementType::string) {
      const Tensor& tensor = box.tensor();
      copy_elements(tensor.view(), receive(index, tensor.type(), tensor.dims()));
    } else {
      boxes_.emplace_back(at, std::move(box));
    }
  }

  // After a successful run.
  void hand_out() {
    for (auto& [at, box] : boxes_) {
      lathe_view& out = *outputs_[at];
      if (out.value == nullptr) {
        out.value = new lathe_tensor{std::move(box)};
      } else {
        out.value->box = std::move(box);
      }
      describe(out);
    }
    for (size_t i = 0; i < made_.size(); ++i) {
      lathe_view& out = *outputs_[i];
      if (made_[i].dims().empty() && made_[i].data() == nullptr) continue;
      const bool on_device = out.data != nullptr ? off_host(out.device) != nullptr
                                                 : out.value == nullptr && stays_on_device(i);
      if (out.value == nullptr) {
        out.value =
            new lathe_tensor{Box{std::move(made_[i])}, on_device ? session_.device : nullptr};
      } else if (!out.value->box.is_tensor()) {
        out.value->box = Box{std::move(made_[i])};
      }
      describe(out);
    }
  }

 private:
  std::string name(size_t at) const { return escape(session_.program().main().result_names()[at]); }

  bool stays_on_device(size_t at) const {
    return options_.results_on_device != 0 && session_.device != nullptr &&
           session_.host_writers[at].empty();
  }

  // Bound memory of a device must be the plan's, and only its stream may write it.
  void check_device(size_t at) const {
    const lathe_view& given = *outputs_[at];
    const lathe_device* device = nullptr;
    if (given.value != nullptr) {
      device = given.value->device;
    } else if (given.data != nullptr) {
      device = off_host(given.device);
    }
    if (device == nullptr) return;
    if (device != session_.device) {
      fail({ErrorKind::invalid_argument, reason::kWrongDevice},
           "output '{}' is bound to memory of device '{}', but the plan runs on '{}': bind memory "
           "of that device or of 'cpu'",
           name(at), device->name, session_.device == nullptr ? "cpu" : session_.device->name);
    }
    if (!session_.host_writers[at].empty()) {
      fail(
          {ErrorKind::invalid_argument, reason::kWrongDevice},
          "output '{}' is bound to memory of device '{}', but the host writes it ({}): bind memory "
          "of 'cpu'",
          name(at), device->name, session_.host_writers[at]);
    }
  }

  void check_fits(size_t at, const TensorView& view, ElementType type,
                  std::span<const int64_t> dims) const {
    if (view.type == type && std::ranges::equal(view.extents(), dims)) return;
    fail({ErrorKind::invalid_argument, view.type == type ? reason::kShape : reason::kType},
         "output '{}' is {}, but the bound tensor is {}", name(at), to_string(type, dims),
         to_string(view.type, view.extents()));
  }

  TensorView in_room(size_t at, ElementType type, std::span<const int64_t> dims) {
    const size_t room = outputs_[at]->bytes;
    const auto bytes = static_cast<size_t>(bytes_for(type, element_count(dims)));
    if (type == ElementType::string || bytes > room) {
      fail({ErrorKind::invalid_argument, reason::kShape},
           "output '{}' is {}, but the bound memory has {} bytes", name(at), to_string(type, dims),
           room);
    }
    Dims extents(dims.begin(), dims.end());
    Dims strides = Tensor::dense_strides(extents);
    made_[at] = Tensor(type, std::move(extents), std::move(strides), outputs_[at]->data, nullptr);
    return made_[at].view();
  }

  static void describe(lathe_view& out) {
    const Box& box = out.value->box;
    if (!box.is_tensor()) return;
    const Tensor& tensor = box.tensor();
    out.type = to_c(tensor.type());
    out.rank = tensor.rank();
    out.dims = tensor.dims().data();
    out.strides = tensor.strides().data();
    out.data = tensor.type() == ElementType::string ? nullptr : tensor.data();
    out.device = out.value->device;
  }

  OpenSession& session_;
  const lathe_run_options& options_;
  const std::vector<lathe_view*>& outputs_;
  std::vector<Tensor>& made_;
  std::vector<std::pair<size_t, Box>> boxes_;
};

// A device tensor is read in place where only copies of the plan's device read it.
void check_input_device(const OpenSession& session, size_t index, const lathe_device* device) {
  const std::string name = escape(session.program().main().parameters()[index]->name());
  if (device != session.device) {
    fail({ErrorKind::invalid_argument, reason::kWrongDevice},
         "input '{}' lies on device '{}', but the plan runs on '{}': copy it with tensor_copy_to",
         name, device->name, session.device == nullptr ? "cpu" : session.device->name);
  }
  if (session.host_readers[index].empty()) return;
  fail({ErrorKind::invalid_argument, reason::kWrongDevice},
       "input '{}' lies on device '{}', but the host must read it ({}): copy it with "
       "tensor_copy_to and device 'cpu'",
       name, device->name, session.host_readers[index]);
}

void set_arguments(const OpenSession& session, Scratch& scratch) {
  const auto& parameters = session.program().main().parameters();
  scratch.arguments.resize(parameters.size());
  static const lathe_view absent{};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const lathe_view& given = scratch.inputs[i] != nullptr ? *scratch.inputs[i] : absent;
    Argument& argument = scratch.arguments[i];
    argument.box = nullptr;
    const bool is_view = given.data != nullptr || given.dims != nullptr || given.type != 0;
    if (given.value == nullptr && is_view) {
      set_view(given, argument.view, "inputs", i);
      if (off_host(given.device) != nullptr) check_input_device(session, i, given.device);
      continue;
    }
    const Box* box = given.value != nullptr ? &given.value->box : default_of(session, i);
    if (box == nullptr) {
      fail({ErrorKind::invalid_argument, reason::kMissingInput},
           "argument 'inputs[{}]' is NULL: input '{}' requires a value", i,
           escape(parameters[i]->name()));
    }
    if (given.value != nullptr && given.value->device != nullptr) {
      check_input_device(session, i, given.value->device);
    }
    if (box->is_tensor() && !parameters[i]->type().is_boxed()) {
      argument.view = box->tensor().view();
    } else {
      argument.box = box;
    }
  }
}

// Orders the caller's entries, by their names where the first has one.
template <class View, class NameOf>
void arrange(const Views<View>& given, size_t count, std::vector<View*>& out,
             const Program& program, std::string_view what, NameOf&& name_of) {
  out.assign(count, nullptr);
  if (given.count() == 0 || given[0].name == nullptr) {
    if (given.count() != count) {
      fail({ErrorKind::invalid_argument, reason::kInputCount}, "got {} {}s, '{}' {} {}",
           given.count(), what, escape(program.name), what == "input" ? "requires" : "has", count);
    }
    for (size_t i = 0; i < count; ++i) out[i] = &given[i];
    return;
  }
  check(given.count() <= count, {ErrorKind::invalid_argument, reason::kInputCount},
        "got {} {}s, '{}' has {}", given.count(), what, escape(program.name), count);
  for (size_t i = 0; i < given.count(); ++i) {
    const std::string_view name = &demand(given[i].name, fmt::format("{}s[{}].name", what, i));
    size_t at = 0;
    while (at < count && name_of(at) != name) ++at;
    if (at == count) {
      std::vector<std::string_view> names;
      for (size_t k = 0; k < count; ++k) names.push_back(name_of(k));
      fail({ErrorKind::invalid_argument, reason::kUnknownName}, "'{}' has no {} '{}'{}",
           escape(program.name), what, escape(name), did_you_mean(name, names));
    }
    check(out[at] == nullptr, ErrorKind::invalid_argument, "{} '{}' is given twice", what,
          escape(name));
    out[at] = &given[i];
  }
}

// Entries for outputs that the caller does not name; their results are dropped.
class Unwanted {
 public:
  explicit Unwanted(Scratch& scratch) : views_(scratch.unwanted) {
    const auto missing = std::ranges::count(scratch.outputs, nullptr);
    views_.assign(static_cast<size_t>(missing), lathe_view{});
    auto next = views_.begin();
    for (lathe_view*& output : scratch.outputs) {
      if (output == nullptr) output = &*next++;
    }
  }
  ~Unwanted() {
    for (const lathe_view& view : views_) delete view.value;
  }
  Unwanted(const Unwanted&) = delete;
  Unwanted& operator=(const Unwanted&) = delete;

 private:
  std::vector<lathe_view>& views_;
};

// The run starts when the caller's stream has ended its work so far.
void wait_for(const OpenSession& session, lathe_stream* stream) {
  if (stream == nullptr) return;
  check_stream(session, *stream);
  const std::scoped_lock lock(stream->mutex);
  stream->stream->synchronize();
  stream->held.clear();
}

lathe_error* run_on_views(lathe_session* session, const lathe_run_options* given,
                          const lathe_view* inputs, size_t input_count, lathe_view* outputs,
                          size_t output_count) {
  return guarded([&] {
    OpenSession& open = *demand(session, "session").open;
    const lathe_run_options options = known(given);
    check_idle(open);
    run_views(open, options, {inputs, input_count, "inputs"}, {outputs, output_count, "outputs"});
  });
}

void set_views(lathe_tensor* const* values, size_t count, std::vector<lathe_view>& out) {
  out.assign(count, lathe_view{});
  for (size_t i = 0; i < count; ++i) {
    out[i].size = sizeof(lathe_view);
    out[i].value = values[i];
  }
}

lathe_error* run_handles(lathe_session* session, const lathe_run_options* given,
                         lathe_tensor* const* inputs, size_t input_count, lathe_tensor** outputs,
                         size_t output_count) {
  return guarded([&] {
    OpenSession& open = *demand(session, "session").open;
    const lathe_run_options options = known(given);
    check_idle(open);
    check((inputs != nullptr || input_count == 0) && (outputs != nullptr || output_count == 0),
          ErrorKind::invalid_argument, "argument '{}' is NULL",
          inputs == nullptr && input_count > 0 ? "inputs" : "outputs");
    const Module& main = open.program().main();
    // Before arrays of these lengths are made.
    check(input_count == main.parameters().size(),
          {ErrorKind::invalid_argument, reason::kInputCount}, "got {} inputs, '{}' requires {}",
          input_count, escape(open.program().name), main.parameters().size());
    check(output_count == main.results().size(), {ErrorKind::invalid_argument, reason::kInputCount},
          "got {} outputs, '{}' has {}", output_count, escape(open.program().name),
          main.results().size());
    std::vector<lathe_view> in;
    std::vector<lathe_view> out;
    set_views(inputs, input_count, in);
    set_views(outputs, output_count, out);
    run_views(open, options, {in.data(), input_count, "inputs"},
              {out.data(), output_count, "outputs"});
    for (size_t i = 0; i < output_count; ++i) outputs[i] = out[i].value;
  });
}

}  // namespace

void check_stream(const OpenSession& session, const lathe_stream& stream) {
  const lathe_device* device = off_host(stream.device);
  if (device == nullptr || device == session.device) return;
  fail({ErrorKind::invalid_argument, reason::kWrongDevice},
       "the stream is of device '{}', but the plan of '{}' runs on '{}': pass a stream of that "
       "device",
       device->name, escape(session.program().name),
       session.device == nullptr ? "cpu" : session.device->name);
}

void run_views(OpenSession& session, const lathe_run_options& options,
               const Views<const lathe_view>& inputs, const Views<lathe_view>& outputs) {
  const ScratchLease lease;
  Scratch& scratch = *lease;
  const Module& main = session.program().main();
  arrange(inputs, main.parameters().size(), scratch.inputs, session.program(), "input",
          [&](size_t i) -> std::string_view { return main.parameters()[i]->name(); });
  arrange(outputs, main.results().size(), scratch.outputs, session.program(), "output",
          [&](size_t i) -> std::string_view { return main.result_names()[i]; });
  const Unwanted unwanted(scratch);
  set_arguments(session, scratch);
  ViewResults results(session, options, scratch);
  wait_for(session, options.stream);
  const InterruptScope interrupt(options.poll, options.poll_context);
  RunOptions run = to_run_options(options);
  Profiler profiler;
  if (options.trace != nullptr) run.profiler = &profiler;
  session.session->run(scratch.arguments, results, run);
  results.hand_out();
  if (options.trace == nullptr) return;
  const std::string text = profiler.events().empty() ? "[]" : profiler.chrome_trace();
  options.trace(options.trace_context, text.data(), text.size());
}

void add_runs(lathe_api& api) {
  api.session_run = run_handles;
  api.session_run_views = run_on_views;
}

}  // namespace lathe::capi
