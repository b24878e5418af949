// SPDX-License-Identifier: MIT
// Runs of sessions, on views of the caller's memory or on handles.
#include "capi/session.h"
#include "capi/views.h"

namespace lathe::capi {
namespace {

// Scratch of a run, kept by its thread so that a run allocates for its results alone.
struct Scratch {
  std::vector<Argument> arguments;
  std::vector<lathe_view> inputs;  // of a run on handles
  std::vector<lathe_view> outputs;
  std::vector<Tensor> made;  // results in new tensors or in memory with room
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
  __int128 count = 1;
  for (size_t axis = rank; axis-- > 0;) {
    out.dims[axis] = given.dims[axis];
    out.strides[axis] = dense ? static_cast<int64_t>(count) : given.strides[axis];
    if (given.dims[axis] < 0) {
      fail({ErrorKind::invalid_argument, reason::kShape}, "{}[{}]: axis {} has size {}", what,
           index, axis, given.dims[axis]);
    }
    count *= given.dims[axis];
    if (count > INT64_MAX / 16) {
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
  ViewResults(lathe_session& session, const lathe_run_options& options,
              const Views<lathe_view>& outputs, std::vector<Tensor>& made)
      : session_(session), options_(options), outputs_(outputs), made_(made) {
    const Module& main = session.session->plan().program->main();
    if (outputs.count() != main.results().size()) {
      fail({ErrorKind::invalid_argument, reason::kInputCount}, "got {} outputs, '{}' has {}",
           outputs.count(), escape(session.session->plan().program->name), main.results().size());
    }
    made.resize(outputs.count());
  }

  TensorView receive(int index, ElementType type, std::span<const int64_t> dims) override {
    const auto at = static_cast<size_t>(index);
    const lathe_view& given = outputs_[at];
    Tensor& made = made_[at];
    if (given.value != nullptr && given.value->box.is_tensor()) {
      made = given.value->box.tensor();
      check_fits(at, made.view(), type, dims);
      return made.view();
    }
    if (given.data != nullptr) {
      if (const size_t room = outputs_.room(at); room > 0) return in_room(at, room, type, dims);
      TensorView view;
      set_view(given, view, "outputs", at);
      check_fits(at, view, type, dims);
      return view;
    }
    if (options_.output != nullptr) {
      made = memory_of_callback(options_, at, type, dims);
    } else {
      made = Tensor(type, Dims(dims.begin(), dims.end()), session_.session->budget());
    }
    return made.view();
  }

  void receive_box(int index, Box box) override {
    const auto at = static_cast<size_t>(index);
    const lathe_view& given = outputs_[at];
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
      lathe_view& out = outputs_[at];
      if (out.value == nullptr) {
        out.value = new lathe_tensor{std::move(box)};
      } else {
        out.value->box = std::move(box);
      }
      describe(out);
    }
    for (size_t i = 0; i < made_.size(); ++i) {
      lathe_view& out = outputs_[i];
      if (made_[i].dims().empty() && made_[i].data() == nullptr) continue;
      if (out.value == nullptr) {
        out.value = new lathe_tensor{Box{std::move(made_[i])}};
      } else if (!out.value->box.is_tensor()) {
        out.value->box = Box{std::move(made_[i])};
      }
      describe(out);
    }
  }

 private:
  void check_fits(size_t at, const TensorView& view, ElementType type,
                  std::span<const int64_t> dims) const {
    if (view.type == type && std::ranges::equal(view.extents(), dims)) return;
    const Module& main = session_.session->plan().program->main();
    fail({ErrorKind::invalid_argument, view.type == type ? reason::kShape : reason::kType},
         "output '{}' is {}, but the bound tensor is {}", escape(main.result_names()[at]),
         to_string(type, dims), to_string(view.type, view.extents()));
  }

  TensorView in_room(size_t at, size_t room, ElementType type, std::span<const int64_t> dims) {
    const auto bytes = static_cast<size_t>(bytes_for(type, element_count(dims)));
    if (type == ElementType::string || bytes > room) {
      const Module& main = session_.session->plan().program->main();
      fail({ErrorKind::invalid_argument, reason::kShape},
           "output '{}' is {}, but the bound memory has {} bytes", escape(main.result_names()[at]),
           to_string(type, dims), room);
    }
    Dims extents(dims.begin(), dims.end());
    Dims strides = Tensor::dense_strides(extents);
    made_[at] = Tensor(type, std::move(extents), std::move(strides), outputs_[at].data, nullptr);
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
  }

  lathe_session& session_;
  const lathe_run_options& options_;
  const Views<lathe_view>& outputs_;
  std::vector<Tensor>& made_;
  std::vector<std::pair<size_t, Box>> boxes_;
};

void set_arguments(const lathe_session& session, const Views<const lathe_view>& inputs,
                   std::vector<Argument>& out) {
  const auto& parameters = session.session->plan().program->main().parameters();
  if (inputs.count() != parameters.size()) {
    fail({ErrorKind::invalid_argument, reason::kInputCount}, "got {} inputs, '{}' requires {}",
         inputs.count(), escape(session.session->plan().program->name), parameters.size());
  }
  out.resize(inputs.count());
  for (size_t i = 0; i < inputs.count(); ++i) {
    const lathe_view& given = inputs[i];
    Argument& argument = out[i];
    argument.box = nullptr;
    if (given.value == nullptr && given.data != nullptr) {
      set_view(given, argument.view, "inputs", i);
      continue;
    }
    const Box* box = given.value != nullptr ? &given.value->box : default_of(session, i);
    if (box == nullptr && (given.dims != nullptr || given.type != 0)) {
      set_view(given, argument.view, "inputs", i);  // a tensor without elements
      continue;
    }
    if (box == nullptr) fail_missing_input(session, i);
    const bool boxed = parameters[i]->type().is_boxed();
    if (box->is_tensor() && !boxed) {
      argument.view = box->tensor().view();
    } else {
      argument.box = box;
    }
  }
}

void run(lathe_session& session, const lathe_run_options& options,
         const Views<const lathe_view>& inputs, const Views<lathe_view>& outputs,
         Scratch& scratch) {
  set_arguments(session, inputs, scratch.arguments);
  ViewResults results(session, options, outputs, scratch.made);
  const InterruptScope interrupt(options.poll, options.poll_context);
  session.session->run(scratch.arguments, results, to_run_options(options));
  results.hand_out();
}

lathe_error* run_views(lathe_session* session, const lathe_run_options* given,
                       const lathe_view* inputs, size_t input_count, lathe_view* outputs,
                       size_t output_count) {
  return guarded([&] {
    lathe_session& handle = demand(session, "session");
    const lathe_run_options options = known(given);
    const Views<const lathe_view> in(inputs, input_count, "inputs");
    const Views<lathe_view> out(outputs, output_count, "outputs");
    const ScratchLease lease;
    run(handle, options, in, out, *lease);
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
    lathe_session& handle = demand(session, "session");
    const lathe_run_options options = known(given);
    check((inputs != nullptr || input_count == 0) && (outputs != nullptr || output_count == 0),
          ErrorKind::invalid_argument, "argument '{}' is NULL",
          inputs == nullptr && input_count > 0 ? "inputs" : "outputs");
    const Module& main = handle.session->plan().program->main();
    // Before arrays of these lengths are made.
    check(input_count == main.parameters().size(),
          {ErrorKind::invalid_argument, reason::kInputCount}, "got {} inputs, '{}' requires {}",
          input_count, escape(handle.session->plan().program->name), main.parameters().size());
    check(output_count == main.results().size(), {ErrorKind::invalid_argument, reason::kInputCount},
          "got {} outputs, '{}' has {}", output_count, escape(handle.session->plan().program->name),
          main.results().size());
    const ScratchLease lease;
    Scratch& scratch = *lease;
    set_views(inputs, input_count, scratch.inputs);
    set_views(outputs, output_count, scratch.outputs);
    run(handle, options, Views<const lathe_view>(scratch.inputs.data(), input_count, "inputs"),
        Views<lathe_view>(scratch.outputs.data(), output_count, "outputs"), scratch);
    for (size_t i = 0; i < output_count; ++i) outputs[i] = scratch.outputs[i].value;
  });
}

}  // namespace

void add_runs(lathe_api& api) {
  api.session_run = run_handles;
  api.session_run_views = run_views;
}

}  // namespace lathe::capi
