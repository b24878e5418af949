// SPDX-License-Identifier: MIT
// Programs built instruction by instruction, and descriptions of ops.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "programs.h"

namespace lathe_python {
namespace {

// A module belongs to its program, which the object keeps.
struct Module {
  nb::object program;
  lathe_module* handle;
};

Program create_program(const std::string& name) {
  lathe_program* made = nullptr;
  check(api->program_create(name.c_str(), &made));
  return {Handle<lathe_program>(made, api->program_free)};
}

lathe_program* handle_of(nb::handle program) { return nb::cast<Program&>(program).handle.get(); }

Module create_module(nb::object program, const std::string& name) {
  lathe_module* made = nullptr;
  check(api->module_create(handle_of(program), name.c_str(), &made));
  return {std::move(program), made};
}

nb::list modules(nb::object program) {
  nb::list out;
  const size_t count = api->program_module_count(handle_of(program));
  for (size_t i = 0; i < count; ++i) {
    lathe_module* found = nullptr;
    check(api->program_module(handle_of(program), i, &found));
    out.append(Module{program, found});
  }
  return out;
}

size_t parameter(Module& self, const std::string& name, const std::string& type) {
  size_t value = 0;
  check(api->module_parameter(self.handle, name.c_str(), type.c_str(), &value));
  return value;
}

size_t literal(Module& self, nb::handle array) {
  const Handle<lathe_tensor> tensor = to_value(array, nullptr);
  size_t value = 0;
  check(api->module_literal(self.handle, tensor.get(), &value));
  return value;
}

// Operands are values, None where an optional one is absent. The values of the
// results.
nb::list instruction(Module& self, const std::string& op, const std::string& attributes,
                     const nb::list& operands, const nb::list& bodies, size_t results) {
  std::vector<size_t> values;
  for (nb::handle operand : operands) {
    values.push_back(operand.is_none() ? LATHE_NO_VALUE : nb::cast<size_t>(operand));
  }
  std::vector<lathe_module*> modules;
  for (nb::handle body : bodies) modules.push_back(nb::cast<Module&>(body).handle);
  std::vector<size_t> made(results);
  check(api->module_instruction(self.handle, op.c_str(), text_of(attributes), values.data(),
                                values.size(), modules.data(), modules.size(), made.data(),
                                made.size()));
  nb::list out;
  for (const size_t value : made) out.append(value);
  return out;
}

void finish(Module& self, const std::vector<size_t>& values,
            const std::optional<std::vector<std::string>>& names) {
  std::vector<const char*> list;
  if (names) {
    for (const std::string& name : *names) list.push_back(name.c_str());
    if (list.size() != values.size()) {
      raise(LATHE_INVALID_ARGUMENT, "got " + std::to_string(list.size()) + " names for " +
                                        std::to_string(values.size()) + " results");
    }
  }
  check(
      api->module_return(self.handle, values.data(), names ? list.data() : nullptr, values.size()));
}

// (op, name, attributes as JSON, operands, results, types of the results)
nb::tuple at(const Module& self, size_t index) {
  auto info = init<lathe_instruction_info>();
  check(api->module_at(self.handle, index, &info));
  nb::list operands;
  for (size_t i = 0; i < info.operand_count; ++i) {
    if (info.operands[i] == LATHE_NO_VALUE) {
      operands.append(nb::none());
    } else {
      operands.append(info.operands[i]);
    }
  }
  nb::list results;
  nb::list types;
  for (size_t i = 0; i < info.result_count; ++i) {
    results.append(info.results[i]);
    types.append(to_str(info.types[i]));
  }
  return nb::make_tuple(to_str(info.op), to_str(info.name == nullptr ? "" : info.name),
                        to_str(info.attributes == nullptr ? "" : info.attributes), operands,
                        results, types);
}

nb::object literal_at(const Module& self, size_t index) {
  lathe_tensor* made = nullptr;
  check(api->module_literal_at(self.handle, index, &made));
  return from_value(own(made)).attr("copy")();
}

}  // namespace

void add_modules(nb::module_& module) {
  nb::class_<Module>(module, "Module")
      .def("name", [](const Module& self) { return to_str(api->module_name(self.handle)); })
      .def("parameter", parameter, nb::arg("name"), nb::arg("type"))
      .def("literal", literal, nb::arg("array"))
      .def("instruction", instruction, nb::arg("op"), nb::arg("attributes"), nb::arg("operands"),
           nb::arg("bodies"), nb::arg("results"))
      .def("finish", finish, nb::arg("values"), nb::arg("names").none() = nb::none())
      .def("size", [](const Module& self) { return api->module_size(self.handle); })
      .def("at", at, nb::arg("index"))
      .def("literal_at", literal_at, nb::arg("index"));
  module.def("create_program", create_program, nb::arg("name"));
  module.def("create_module", create_module, nb::arg("program"), nb::arg("name"));
  module.def("modules", modules, nb::arg("program"));
  module.def("op_names", [] {
    nb::list names;
    for (size_t i = 0; i < api->op_count(); ++i) names.append(to_str(api->op_name(i)));
    return names;
  });
  module.def(
      "describe_op",
      [](const std::string& name) {
        std::string json;
        check(api->op_describe(name.c_str(), append_text, &json));
        return json;
      },
      nb::arg("name"));
}

}  // namespace lathe_python
