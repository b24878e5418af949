// SPDX-License-Identifier: MIT
// Inputs and outputs bound to a session across runs.
#include "binding.h"

#include <algorithm>

#include <nanobind/stl/string.h>

#include "device_tensors.h"

namespace lathe_python {
namespace {

class Binding {
 public:
  explicit Binding(const nb::object& session)
      : session_(nb::cast<Session&>(session).opened()), call_(std::make_unique<Call>(session_)) {}

  void bind_input(nb::handle name, nb::handle value) {
    const CallLock lock(calls_);
    call_->set_input(index_of(session_->input_index(name.ptr()), name, "input"), value.ptr(), true);
  }
  // None: a new array for each run.
  void bind_output(nb::handle name, nb::handle array) {
    const CallLock lock(calls_);
    const size_t index = index_of(session_->output_index(name.ptr()), name, "output");
    call_->set_output(index, array.is_none() ? nullptr : array.ptr());
    list(index);
  }
  // A new tensor on the device for each run.
  void bind_output_on(nb::handle name, const std::string& device) {
    const CallLock lock(calls_);
    const size_t index = index_of(session_->output_index(name.ptr()), name, "output");
    call_->set_output_on(index, find_device(device));
    list(index);
  }
  void clear_inputs() {
    const CallLock lock(calls_);
    for (size_t i = 0; i < session_->inputs.size(); ++i) call_->clear_input(i);
  }
  void clear_outputs() {
    const CallLock lock(calls_);
    for (size_t i = 0; i < session_->outputs.size(); ++i) call_->set_output(i, nullptr);
    order_.clear();
    results_ = nb::list();
  }
  // The bound outputs in the order of their binding; empty before the first run.
  nb::list outputs() const {
    nb::list out;
    for (const size_t index : order_) {
      if (index < results_.size()) out.append(results_[index]);
    }
    return out;
  }
  nb::list names() const {
    nb::list out;
    for (const size_t index : order_) out.append(session_->outputs[index].name);
    return out;
  }
  void run(nb::handle options) { run(options, nullptr); }
  // The times of all launches as a JSON array.
  nb::str run_traced(nb::handle options) {
    std::string trace;
    run(options, &trace);
    return to_str(trace);
  }

 private:
  void list(size_t index) {
    if (std::ranges::find(order_, index) == order_.end()) order_.push_back(index);
  }
  void run(nb::handle options, std::string* trace) {
    const CallLock lock(calls_);
    if (order_.empty()) {
      raise(LATHE_INVALID_ARGUMENT, "At least one output should be requested.", "missing_output");
    }
    std::string missing;
    const std::vector<Port>& inputs = session_->inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (call_->has_input(i) || inputs[i].may_be_omitted()) continue;
      missing += (missing.empty() ? "'" : ", '") + std::string(inputs[i].info.name) + "'";
    }
    if (!missing.empty()) {
      raise(LATHE_INVALID_ARGUMENT, "inputs without a binding: " + missing, "missing_input");
    }
    call_->set_options(options);
    call_->set_trace(trace);
    results_ = call_->run();
  }
  static size_t index_of(Py_ssize_t found, nb::handle name, const char* what) {
    if (found < 0) {
      const nb::str text(nb::repr(name));
      raise(LATHE_INVALID_ARGUMENT, std::string("unknown ") + what + " " + text.c_str(),
            "unknown_name");
    }
    return static_cast<size_t>(found);
  }

  // A run leaves the GIL, so that other threads come here.
  CallMutex calls_{"the IOBinding"};
  std::shared_ptr<const OpenSession> session_;
  std::unique_ptr<Call> call_;
  std::vector<size_t> order_;
  nb::list results_;
};

}  // namespace

void add_bindings(nb::module_& module) {
  nb::class_<Binding>(module, "Binding")
      .def(nb::init<nb::object>(), nb::arg("session"))
      .def("_bind_input", &Binding::bind_input, nb::arg("name"), nb::arg("value"))
      .def("_bind_output", &Binding::bind_output, nb::arg("name"), nb::arg("array").none())
      .def("_bind_output_on", &Binding::bind_output_on, nb::arg("name"), nb::arg("device"))
      .def("_clear_inputs", &Binding::clear_inputs)
      .def("_clear_outputs", &Binding::clear_outputs)
      .def("_outputs", &Binding::outputs)
      .def("_names", &Binding::names)
      .def("_run", nb::overload_cast<nb::handle>(&Binding::run),
           nb::arg("options").none() = nb::none())
      .def("_run_traced", &Binding::run_traced, nb::arg("options").none() = nb::none());
  // A session's run_with_iobinding() without a profile.
  module.def(
      "run_with_iobinding", [](Binding& self, nb::handle options) { self.run(options); },
      nb::arg("iobinding"), nb::arg("run_options").none() = nb::none());
}

}  // namespace lathe_python
