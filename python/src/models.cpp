// SPDX-License-Identifier: MIT
// Language models: configurations, models, search options.
#include "models.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "tokenizers.h"

namespace lathe_python {
namespace {

struct Config {
  Handle<lathe_model_config> handle;
  lathe_model_config* get() const { return handle.get(); }
};

Config make_config(const std::optional<std::string>& folder) {
  lathe_model_config* made = nullptr;
  check(api->model_config_create(folder ? folder->c_str() : nullptr, &made));
  Config config{Handle<lathe_model_config>(made, api->model_config_free)};
  check(api->model_config_set_poll(made, poll_signals, nullptr));
  return config;
}

// The configuration and its models keep a reference to the buffer; nothing is copied.
void add_data(Config& self, const std::string& name, const nb::bytes& bytes) {
  Py_INCREF(bytes.ptr());
  check(api->model_config_wrap_model_data(self.get(), name.c_str(), bytes.data(), bytes.size(),
                                          release_object, bytes.ptr()));
}

Model open(const Config& config) {
  lathe_model* made = nullptr;
  unlocked([&] { return api->model_create(config.get(), &made); });
  return {Handle<lathe_model>(made, api->model_free)};
}

nb::list end_tokens(const Model& self) {
  const int32_t* tokens = nullptr;
  size_t count = 0;
  check(api->model_end_tokens(self.handle.get(), &tokens, &count));
  nb::list out;
  for (size_t i = 0; i < count; ++i) out.append(tokens[i]);
  return out;
}

std::string setting(const Model& self, const std::string& path) {
  std::string json;
  check(api->model_setting(self.handle.get(), path.c_str(), append_text, &json));
  return json;
}

Tokenizer tokenizer_of_config(const Config& self) {
  lathe_tokenizer* made = nullptr;
  unlocked([&] { return api->model_config_tokenizer(self.get(), &made); });
  return {Handle<lathe_tokenizer>(made, api->tokenizer_free)};
}

Tokenizer tokenizer(const Model& self) {
  lathe_tokenizer* made = nullptr;
  unlocked([&] { return api->model_tokenizer(self.handle.get(), &made); });
  return {Handle<lathe_tokenizer>(made, api->tokenizer_free)};
}

ChatTemplate chat_template(const Model& self) {
  lathe_chat_template* made = nullptr;
  check(api->model_chat_template(self.handle.get(), &made));
  return {Handle<lathe_chat_template>(made, api->chat_template_free)};
}

GeneratorParams make_params(const Model& model) {
  lathe_generator_params* made = nullptr;
  check(api->generator_params_create(model.handle.get(), &made));
  GeneratorParams params{Handle<lathe_generator_params>(made, api->generator_params_free)};
  check(api->generator_params_set_poll(made, poll_signals, nullptr));
  return params;
}

}  // namespace

void add_models(nb::module_& module) {
  nb::class_<Config>(module, "ModelConfig")
      .def("tokenizer", tokenizer_of_config)
      .def(
          "overlay",
          [](Config& self, const std::string& json) {
            check(api->model_config_overlay(self.get(), text_of(json)));
          },
          nb::arg("json"))
      .def("clear_providers",
           [](Config& self) { check(api->model_config_clear_providers(self.get())); })
      .def(
          "append_provider",
          [](Config& self, const std::string& name) {
            check(api->model_config_append_provider(self.get(), name.c_str()));
          },
          nb::arg("name"))
      .def(
          "set_provider_option",
          [](Config& self, const std::string& provider, const std::string& key,
             const std::string& value) {
            check(api->model_config_set_provider_option(self.get(), provider.c_str(), key.c_str(),
                                                        value.c_str()));
          },
          nb::arg("provider"), nb::arg("key"), nb::arg("value"))
      .def("add_model_data", add_data, nb::arg("name"), nb::arg("data"))
      .def(
          "remove_model_data",
          [](Config& self, const std::string& name) {
            check(api->model_config_remove_model_data(self.get(), name.c_str()));
          },
          nb::arg("name"))
      .def(
          "set_target",
          [](Config& self, const std::string& name) {
            check(api->model_config_set_target(self.get(), name.c_str()));
          },
          nb::arg("name"))
      .def(
          "set_threads",
          [](Config& self, int threads) {
            check(api->model_config_set_threads(self.get(), threads));
          },
          nb::arg("threads"))
      .def(
          "set_compute",
          [](Config& self, const std::string& name) {
            check(api->model_config_set_compute(self.get(), name.c_str()));
          },
          nb::arg("name"))
      .def(
          "set_quantize",
          [](Config& self, const std::string& how) {
            check(api->model_config_set_quantize(self.get(), how.c_str()));
          },
          nb::arg("how"));
  nb::class_<Model>(module, "Model")
      .def("type", [](const Model& self) { return to_str(api->model_type(self.handle.get())); })
      .def("device", [](const Model& self) { return to_str(api->model_device(self.handle.get())); })
      .def("vocabulary", [](const Model& self) { return api->model_vocabulary(self.handle.get()); })
      .def("context_length",
           [](const Model& self) { return api->model_context_length(self.handle.get()); })
      .def("end_tokens", end_tokens)
      .def("setting", setting, nb::arg("path"))
      .def("tokenizer", tokenizer)
      .def("chat_template", chat_template);
  nb::class_<GeneratorParams>(module, "GeneratorParams")
      .def(
          "set",
          [](GeneratorParams& self, const std::string& name, const std::string& json) {
            check(api->generator_params_set(self.handle.get(), name.c_str(), text_of(json)));
          },
          nb::arg("name"), nb::arg("json"))
      .def(
          "get",
          [](const GeneratorParams& self, const std::string& name) {
            std::string json;
            check(api->generator_params_get(self.handle.get(), name.c_str(), append_text, &json));
            return json;
          },
          nb::arg("name"));
  module.def("model_config", make_config, nb::arg("folder").none());
  module.def("open_model", open, nb::arg("config"));
  module.def("generator_params", make_params, nb::arg("model"));
}

}  // namespace lathe_python
