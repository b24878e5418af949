// SPDX-License-Identifier: MIT
// Programs and plans: load, inspect, compile.
#include "programs.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"

namespace lathe_python {
namespace {

std::vector<const char*> pointers(const std::vector<std::string>& names) {
  std::vector<const char*> out;
  for (const std::string& name : names) out.push_back(name.c_str());
  return out;
}

// Options of a load, whose strings the object owns.
struct LoadOptions {
  LoadOptions(std::string name_, std::string folder_, std::vector<std::string> overridden_,
              const nb::dict& data)
      : name(std::move(name_)), folder(std::move(folder_)), overridden(std::move(overridden_)) {
    names = pointers(overridden);
    options = init<lathe_load_options>();
    if (!name.empty()) options.name = name.c_str();
    if (!folder.empty()) options.folder = folder.c_str();
    options.overridden_initialisers = names.data();
    options.overridden_initialiser_count = names.size();
    keys.reserve(data.size());
    for (const auto& [key, value] : data) {
      keys.push_back(nb::cast<std::string>(key));
      const nb::bytes bytes(value);
      contents.push_back(bytes);
      files.push_back({keys.back().c_str(), bytes.data(), bytes.size()});
    }
    options.data = files.data();
    options.data_count = files.size();
    options.poll = poll_signals;
  }
  std::string name, folder;
  std::vector<std::string> overridden, keys;
  std::vector<const char*> names;
  std::vector<nb::bytes> contents;
  std::vector<lathe_data_file> files;
  lathe_load_options options;
};

Program load(const std::string& path, const std::string& name, std::vector<std::string> overridden,
             const nb::dict& data) {
  LoadOptions load(name, "", std::move(overridden), data);
  lathe_program* made = nullptr;
  unlocked([&] { return api->program_load(path.c_str(), &load.options, &made); });
  return {Handle<lathe_program>(made, api->program_free)};
}

// The program keeps a reference to the bytes; nothing is copied.
Program load_memory(const nb::bytes& bytes, const std::string& name, const std::string& folder,
                    std::vector<std::string> overridden, const nb::dict& data) {
  LoadOptions load(name, folder, std::move(overridden), data);
  lathe_program* made = nullptr;
  Py_INCREF(bytes.ptr());
  load.options.release = release_object;
  load.options.release_context = bytes.ptr();
  unlocked(
      [&] { return api->program_load_memory(bytes.data(), bytes.size(), &load.options, &made); });
  return {Handle<lathe_program>(made, api->program_free)};
}

template <class T>
nb::list describe_all(T* handle, size_t count,
                      lathe_error* (*read)(const T*, size_t, lathe_value_info*)) {
  nb::list out;
  for (size_t i = 0; i < count; ++i) {
    auto info = init<lathe_value_info>();
    check(read(handle, i, &info));
    out.append(describe(info));
  }
  return out;
}

Plan compile(const Program& program, const std::string& target, const std::string& compute,
             double tune_seconds) {
  auto options = init<lathe_compile_options>();
  options.target = target.c_str();
  options.compute = compute.c_str();
  options.tune_seconds = tune_seconds;
  options.poll = poll_signals;
  lathe_plan* made = nullptr;
  unlocked([&] { return api->plan_compile(program.handle.get(), &options, &made); });
  return {Handle<lathe_plan>(made, api->plan_free)};
}

void save(const Plan& plan, const std::string& path) {
  unlocked([&] { return api->program_save(plan.handle.get(), path.c_str()); });
}

nb::bytes save_bytes(const Plan& plan) {
  std::string out;
  unlocked([&] {
    return api->program_save_memory(
        plan.handle.get(),
        [](void* context, const char* text, size_t bytes) {
          static_cast<std::string*>(context)->append(text, bytes);
        },
        &out);
  });
  return nb::bytes(out.data(), out.size());
}

// The file's header as a dict, and its metadata.
nb::dict header(const Program& program) {
  auto info = init<lathe_program_info>();
  check(api->program_info(program.handle.get(), &info));
  nb::dict out;
  out["producer_name"] = to_str(info.producer);
  out["producer_version"] = to_str(info.producer_version);
  out["domain"] = to_str(info.domain);
  out["description"] = to_str(info.description);
  out["graph_name"] = to_str(info.graph_name);
  out["graph_description"] = to_str(info.graph_description);
  out["version"] = info.model_version;
  nb::dict properties;
  const size_t count = api->program_metadata_count(program.handle.get());
  for (size_t i = 0; i < count; ++i) {
    const char* key = nullptr;
    const char* value = nullptr;
    check(api->program_metadata(program.handle.get(), i, &key, &value));
    properties[to_str(key)] = to_str(value);
  }
  out["custom_metadata_map"] = properties;
  return out;
}

void add_described(void* context, size_t, const lathe_value_info* info) {
  static_cast<nb::list*>(context)->append(describe(*info));
}

// The types of the outputs for inputs of given sizes: dims of each input, None for its own.
nb::list infer(const Program& program, const nb::list& dims) {
  std::vector<lathe_view> views;
  std::vector<std::vector<int64_t>> sizes(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    auto view = init<lathe_view>();
    if (!dims[i].is_none()) {
      for (nb::handle size : dims[i]) {
        sizes[i].push_back(size.is_none() ? -1 : nb::cast<int64_t>(size));
      }
      sizes[i].reserve(1);  // a scalar's dims are not NULL
      view.rank = static_cast<int32_t>(sizes[i].size());
      view.dims = sizes[i].data();
    }
    views.push_back(view);
  }
  nb::list out;
  check(api->program_infer(program.handle.get(), views.data(), views.size(), add_described, &out));
  return out;
}

std::string write(const Program& program, const std::string& format) {
  std::string text;
  check(api->program_write(program.handle.get(), format.c_str(), append_text, &text));
  return text;
}

// (passed, report as JSON)
nb::tuple verify(const Program& program, const std::string& target, double tolerance,
                 const nb::list& inputs) {
  auto options = init<lathe_verify_options>();
  options.target = target.c_str();
  options.tolerance = tolerance;
  options.poll = poll_signals;
  std::vector<Handle<lathe_tensor>> values;
  std::vector<lathe_tensor*> handles;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto info = init<lathe_value_info>();
    check(api->program_input(program.handle.get(), i, &info));
    values.push_back(to_value(inputs[i], &info));
    handles.push_back(values.back().get());
  }
  std::string report;
  int passed = 0;
  unlocked([&] {
    return api->program_verify(program.handle.get(), &options, handles.data(), handles.size(),
                               append_text, &report, &passed);
  });
  return nb::make_tuple(passed != 0, to_str(report));
}

std::string print(const Program& program) {
  std::string text;
  check(api->program_print(program.handle.get(), append_text, &text));
  return text;
}

void promote(Program& program, const std::vector<std::string>& past,
             const std::vector<std::string>& present) {
  if (past.size() != present.size()) {
    raise(LATHE_INVALID_ARGUMENT, "got " + std::to_string(past.size()) + " past and " +
                                      std::to_string(present.size()) + " present names");
  }
  check(api->program_promote_states(program.handle.get(), pointers(past).data(),
                                    pointers(present).data(), past.size()));
}

}  // namespace

nb::tuple describe(const lathe_value_info& info) {
  nb::object dims = nb::none();
  nb::list names;
  nb::list denotations;
  if (info.kind == LATHE_VALUE_TENSOR && info.rank >= 0) {
    nb::list sizes;
    for (int i = 0; i < info.rank; ++i) {
      if (info.dims[i] < 0) {
        sizes.append(nb::none());
      } else {
        sizes.append(info.dims[i]);
      }
      names.append(to_str(info.dim_names[i]));
      denotations.append(to_str(info.dim_denotations == nullptr ? "" : info.dim_denotations[i]));
    }
    dims = sizes;
  }
  return nb::make_tuple(to_str(info.name), info.kind, info.element_type, dims, names,
                        to_str(info.type), denotations, info.has_default != 0);
}

void add_programs(nb::module_& module) {
  nb::class_<Program>(module, "Program")
      .def("inputs",
           [](const Program& self) {
             return describe_all(self.handle.get(), api->program_input_count(self.handle.get()),
                                 api->program_input);
           })
      .def("outputs",
           [](const Program& self) {
             return describe_all(self.handle.get(), api->program_output_count(self.handle.get()),
                                 api->program_output);
           })
      .def("defaults",
           [](const Program& self) {
             return describe_all(self.handle.get(), api->program_default_count(self.handle.get()),
                                 api->program_default);
           })
      .def("header", header)
      .def("infer", infer, nb::arg("dims"))
      .def("write", write, nb::arg("format"))
      .def("verify", verify, nb::arg("target"), nb::arg("tolerance"), nb::arg("inputs"))
      .def("compile", compile, nb::arg("target"), nb::arg("compute") = "as_model",
           nb::arg("tune_seconds") = 0.0)
      .def("promote_states", promote, nb::arg("past"), nb::arg("present"))
      .def("text", print);
  nb::class_<Plan>(module, "Plan")
      .def("inputs",
           [](const Plan& self) {
             return describe_all(self.handle.get(), api->plan_input_count(self.handle.get()),
                                 api->plan_input);
           })
      .def("outputs",
           [](const Plan& self) {
             return describe_all(self.handle.get(), api->plan_output_count(self.handle.get()),
                                 api->plan_output);
           })
      .def("save", save, nb::arg("path"))
      .def("save_bytes", save_bytes);
  module.def("load", load, nb::arg("path"), nb::arg("name"), nb::arg("overridden"),
             nb::arg("data"));
  module.def("load_memory", load_memory, nb::arg("bytes"), nb::arg("name"), nb::arg("folder"),
             nb::arg("overridden"), nb::arg("data"));
  // (name, target) of a provider, or None.
  module.def(
      "provider",
      [](const std::string& name) -> nb::object {
        const char* target = nullptr;
        const char* found = api->provider_find(name.c_str(), &target);
        if (found == nullptr) return nb::none();
        return nb::make_tuple(to_str(found), to_str(target));
      },
      nb::arg("name"));
  module.def("providers", [] {
    nb::list names;
    for (size_t i = 0; api->provider_name(i) != nullptr; ++i)
      names.append(to_str(api->provider_name(i)));
    return names;
  });
  // Without GPUs: to look for one makes a context on it.
  module.def("targets", [] {
    nb::list names;
    for (size_t i = 0; i < api->target_count(); ++i) names.append(to_str(api->target_name(i)));
    return names;
  });
}

}  // namespace lathe_python
