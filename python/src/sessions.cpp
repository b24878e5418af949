// SPDX-License-Identifier: MIT
// Sessions and their runs: the hot path.
#include "sessions.h"

#include <nanobind/stl/string.h>

namespace lathe_python {
namespace {

template <class Read>
std::vector<Port> ports_of(size_t count, nb::dict& index, Read read) {
  std::vector<Port> out;
  for (size_t i = 0; i < count; ++i) {
    Port port;
    port.info = init<lathe_value_info>();
    check(read(i, &port.info));
    PyObject* name = PyUnicode_InternFromString(port.info.name);
    if (name == nullptr) throw nb::python_error();
    port.name = nb::steal(name);
    port.is_fixed = port.info.kind == LATHE_VALUE_TENSOR && port.info.rank >= 0 &&
                    port.info.rank <= 16 && bits_of(port.info.element_type) >= 8;
    for (int axis = 0; port.is_fixed && axis < port.info.rank; ++axis) {
      port.is_fixed = port.info.dims[axis] >= 0;
    }
    index[port.name] = i;
    out.push_back(std::move(port));
  }
  return out;
}

std::string names_of(const std::vector<Port>& ports) {
  std::string out;
  for (const Port& port : ports) {
    if (!out.empty()) out += ", ";
    out += "'" + std::string(port.info.name) + "'";
  }
  return out;
}

std::string text_of_name(PyObject* name) {
  const nb::str text(nb::repr(nb::handle(name)));
  return text.c_str();
}

}  // namespace

void Session::open(nb::object plan, int threads, int64_t memory_limit) {
  lathe_plan* handle = nb::cast<Plan&>(plan).handle.get();
  auto options = init<lathe_session_options>();
  options.threads = threads;
  options.memory_limit = memory_limit;
  lathe_session* made = nullptr;
  unlocked([&] { return api->session_create(handle, &options, &made); });
  auto opened = std::make_shared<OpenSession>();
  opened->handle = Handle<lathe_session>(made, api->session_free);
  opened->inputs = ports_of(api->plan_input_count(handle), opened->input_indices,
                            [&](size_t i, auto* info) { return api->plan_input(handle, i, info); });
  opened->outputs =
      ports_of(api->plan_output_count(handle), opened->output_indices,
               [&](size_t i, auto* info) { return api->plan_output(handle, i, info); });
  opened->plan = std::move(plan);
  open_ = std::move(opened);
}

const std::shared_ptr<const OpenSession>& Session::opened() const {
  if (open_ == nullptr) raise(LATHE_INVALID_ARGUMENT, "the session is not open");
  return open_;
}

Py_ssize_t OpenSession::index_in(const nb::dict& index, PyObject* name) {
  PyObject* found = PyDict_GetItemWithError(index.ptr(), name);
  if (found == nullptr) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return -1;
  }
  return PyLong_AsSsize_t(found);
}

size_t OpenSession::position_of(PyObject* name, size_t expected) const {
  if (expected < inputs.size() && inputs[expected].name.ptr() == name) return expected;
  const Py_ssize_t found = input_index(name);
  if (found < 0) {
    raise(LATHE_INVALID_ARGUMENT,
          "unknown input " + text_of_name(name) + ": the model has " + names_of(inputs),
          "unknown_name");
  }
  return static_cast<size_t>(found);
}

nb::tuple Session::run_traced(nb::handle names, nb::handle feed, nb::handle options) {
  std::string trace;
  nb::object results = run(names, feed, options, &trace);
  return nb::make_tuple(results, to_str(trace));
}

nb::object Session::run(nb::handle names, nb::handle feed, nb::handle options, std::string* trace) {
  const std::shared_ptr<const OpenSession> session = opened();
  nb::object mapping = nb::borrow(feed);
  if (!PyDict_Check(feed.ptr())) {
    nb::getattr(feed, "keys");  // AttributeError for what is not a mapping
    mapping = nb::handle(reinterpret_cast<PyObject*>(&PyDict_Type))(feed);
  }
  Call call(session);
  call.set_options(options);
  call.set_trace(trace);
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  size_t count = 0;
  while (PyDict_Next(mapping.ptr(), &position, &key, &value) != 0) {
    // Comparisons of keys and conversions of values may run code that changes the dict.
    const nb::object held_key = nb::borrow(key), held_value = nb::borrow(value);
    call.set_input(session->position_of(key, count++), value);
  }
  if (count < session->inputs.size()) session->require_inputs(call);
  nb::list results = call.run();
  if (names.is_none()) return std::move(results);
  return session->select(results, names);
}

void OpenSession::require_inputs(const Call& call) const {
  std::string missing;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (call.has_input(i) || inputs[i].may_be_omitted()) continue;
    missing += (missing.empty() ? "'" : ", '") + std::string(inputs[i].info.name) + "'";
  }
  if (missing.empty()) return;
  raise(LATHE_INVALID_ARGUMENT, "Required inputs ([" + missing + "]) are missing from input feed",
        "missing_input");
}

nb::object OpenSession::select(const nb::list& results, nb::handle names) const {
  if (PyUnicode_Check(names.ptr()))
    throw nb::type_error("output_names is a string, expected names");
  const Py_ssize_t count = PySequence_Size(names.ptr());
  if (count < 0) throw nb::python_error();
  if (count == 0) return results;
  nb::list chosen;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const nb::object name = nb::steal(PySequence_GetItem(names.ptr(), i));
    if (!name.is_valid()) throw nb::python_error();
    const Py_ssize_t found = output_index(name.ptr());
    if (found < 0) {
      raise(LATHE_INVALID_ARGUMENT,
            "Invalid output name: " + text_of_name(name.ptr()) + ": the model has " +
                names_of(outputs),
            "unknown_name");
    }
    chosen.append(results[static_cast<size_t>(found)]);
  }
  return std::move(chosen);
}

void add_sessions(nb::module_& module) {
  nb::class_<Cancel>(module, "Cancel")
      .def(nb::init<>())
      .def("set", [](Cancel& self) { api->cancel_set(self.handle.get()); })
      .def("reset", [](Cancel& self) { api->cancel_reset(self.handle.get()); });
  nb::class_<Session>(module, "Session", nb::is_weak_referenceable())
      .def(nb::init<>())
      .def("_open", &Session::open, nb::arg("plan"), nb::arg("threads") = 0,
           nb::arg("memory_limit") = 0)
      .def("run", nb::overload_cast<nb::handle, nb::handle, nb::handle>(&Session::run),
           nb::arg("output_names").none(), nb::arg("input_feed"),
           nb::arg("run_options").none() = nb::none())
      .def("_run_traced", &Session::run_traced, nb::arg("output_names").none(),
           nb::arg("input_feed"), nb::arg("run_options").none() = nb::none())
      .def("_reset", [](Session& self) { check(api->session_reset(self.opened()->handle.get())); })
      .def("_memory", [](const Session& self) {
        auto use = init<lathe_memory_use>();
        check(api->session_memory(self.opened()->handle.get(), &use));
        return nb::make_tuple(use.now, use.peak);
      });
}

}  // namespace lathe_python
