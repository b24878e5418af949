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

}  // namespace

void add_commands(nb::module_& module) {
  module.def("run_command", run_command, nb::arg("arguments"));
}

}  // namespace lathe_python
