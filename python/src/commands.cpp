// SPDX-License-Identifier: MIT
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core.h"

namespace lathe_python {
namespace {

// The exit code of a command of the program `lathe`.
int run_command(const std::vector<std::string>& arguments) {
  std::vector<const char*> list;
  for (const std::string& argument : arguments) list.push_back(argument.c_str());
  int exit_code = 0;
  unlocked([&] { return api->run_command(list.data(), list.size(), &exit_code); });
  return exit_code;
}

// Receives lines of the log on any thread; lathe._log.write(level, line).
void write_log(void*, int level, const char* line) {
  if (Py_IsInitialized() == 0) return;
  const PyGILState_STATE state = ensure_gil();
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);  // a pending exception is not the log's
  try {
    nb::module_::import_("lathe._log").attr("write")(level, nb::str(line));
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("lathe: writing to the log");
  }
  PyErr_Restore(type, value, trace);
  PyGILState_Release(state);
}

}  // namespace

void add_commands(nb::module_& module) {
  api->log_set_sink(write_log, nullptr);
  module.def("set_log_level", [](int level) { api->log_set_level(level); }, nb::arg("level"));
  module.def("close_log", [] { api->log_set_sink(nullptr, nullptr); });
  module.def("run_command", run_command, nb::arg("arguments"));
}

}  // namespace lathe_python
