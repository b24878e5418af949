// SPDX-License-Identifier: MIT
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>

#include "arrays.h"
#include "models.h"

namespace lathe_python {
namespace {

struct Generator {
  // Calls leave the GIL, so that other threads may call meanwhile.
  std::unique_ptr<CallMutex> calls = std::make_unique<CallMutex>("the Generator");
  nb::object model;
  Handle<lathe_generator> handle;
  std::unique_ptr<Cancel> cancel = std::make_unique<Cancel>();
  lathe_cancel* stop() const { return cancel->handle.get(); }
  lathe_generator* get() const { return handle.get(); }
};

Generator make(nb::object model, const GeneratorParams& params) {
  lathe_generator* made = nullptr;
  lathe_model* opened = nb::cast<Model&>(model).handle.get();
  unlocked([&] { return api->generator_create(opened, params.handle.get(), &made); });
  Generator generator;
  generator.handle = Handle<lathe_generator>(made, api->generator_free);
  generator.model = std::move(model);
  return generator;
}

nb::object tokens_of(const int32_t* tokens, size_t count) {
  const auto size = static_cast<int64_t>(count);
  void* data = nullptr;
  PyObject* array = new_array(LATHE_I32, &size, 1, &data);
  if (array == nullptr) throw nb::python_error();
  if (count > 0) std::memcpy(data, tokens, count * sizeof(int32_t));
  return nb::steal(array);
}

// A contiguous int32 array.
struct Tokens {
  explicit Tokens(nb::handle array) {
    ArrayView view;
    if (!view_of(array.ptr(), view) || view.type != LATHE_I32 || view.rank != 1 ||
        (view.dims[0] > 1 && view.strides[0] != 1)) {
      raise(LATHE_INVALID_ARGUMENT, "tokens must be a contiguous int32 array of rank 1", "type");
    }
    data = static_cast<const int32_t*>(view.data);
    count = static_cast<size_t>(view.dims[0]);
  }
  const int32_t* data;
  size_t count;
};

void append(Generator& self, size_t prompt, nb::handle array) {
  const Tokens tokens(array);
  const CallLock lock(*self.calls);
  unlocked(
      [&] { return api->generator_append_tokens(self.get(), prompt, tokens.data, tokens.count); });
}

size_t add_prompt(Generator& self, const GeneratorParams& params, nb::handle array) {
  const Tokens tokens(array);
  const CallLock lock(*self.calls);
  size_t prompt = 0;
  unlocked([&] {
    return api->generator_add_prompt(self.get(), params.handle.get(), tokens.data, tokens.count,
                                     &prompt);
  });
  return prompt;
}

void set_input(Generator& self, const std::string& name, nb::handle value) {
  const Handle<lathe_tensor> tensor = to_value(value, nullptr);
  const CallLock lock(*self.calls);
  unlocked([&] { return api->generator_set_model_input(self.get(), name.c_str(), tensor.get()); });
}

nb::object next_tokens(const Generator& self) {
  const CallLock lock(*self.calls);
  const int32_t* tokens = nullptr;
  size_t count = 0;
  check(api->generator_next_tokens(self.get(), &tokens, &count));
  return tokens_of(tokens, count);
}

nb::object logits(Generator& self) {
  const CallLock lock(*self.calls);
  lathe_tensor* made = nullptr;
  unlocked([&] { return api->generator_get_logits(self.get(), self.stop(), &made); });
  return from_value(own(made));
}

nb::object step_logits(Generator& self) {
  const CallLock lock(*self.calls);
  lathe_tensor* made = nullptr;
  unlocked([&] { return api->generator_get_step_logits(self.get(), &made); });
  return from_value(own(made));
}

// Runs the pending tokens.
void prefill(Generator& self) {
  const CallLock lock(*self.calls);
  lathe_tensor* made = nullptr;
  unlocked([&] { return api->generator_get_logits(self.get(), self.stop(), &made); });
  own(made).reset();
}

void set_logits(Generator& self, nb::handle value) {
  const Handle<lathe_tensor> tensor = to_value(value, nullptr);
  const CallLock lock(*self.calls);
  check(api->generator_set_logits(self.get(), tensor.get()));
}

using Read = lathe_error* (*)(lathe_generator*, const char*, lathe_tensor**);
nb::object read(Generator& self, const std::string& name, Read function) {
  const CallLock lock(*self.calls);
  lathe_tensor* made = nullptr;
  unlocked([&] { return function(self.get(), name.c_str(), &made); });
  return from_value(own(made));
}

size_t sequence_count(Generator& self) {
  const CallLock lock(*self.calls);
  size_t count = 0;
  check(api->generator_sequence_count(self.get(), &count));
  return count;
}

// (prompt, tokens, prompt tokens, finish reason, score)
nb::tuple sequence(Generator& self, size_t index) {
  const CallLock lock(*self.calls);
  auto found = init<lathe_sequence>();
  check(api->generator_sequence(self.get(), index, &found));
  return nb::make_tuple(found.prompt, tokens_of(found.tokens, found.token_count),
                        found.prompt_tokens, found.reason, found.score);
}

}  // namespace

void add_generators(nb::module_& module) {
  nb::class_<Generator>(module, "Generator")
      .def("append", append, nb::arg("prompt"), nb::arg("tokens"))
      .def("add_prompt", add_prompt, nb::arg("params"), nb::arg("tokens"))
      .def(
          "stop",
          [](Generator& self, bool on) {
            on ? api->cancel_set(self.stop()) : api->cancel_reset(self.stop());
          },
          nb::arg("on"))
      .def("prefill", prefill)
      .def("set_input", set_input, nb::arg("name"), nb::arg("value"))
      .def("is_done",
           [](const Generator& self) {
             const CallLock lock(*self.calls);
             return api->generator_prompt_count(self.get()) > 0 &&
                    api->generator_is_done(self.get()) != 0;
           })
      .def("generate_next_token",
           [](Generator& self) {
             const CallLock lock(*self.calls);
             unlocked([&] { return api->generator_generate_next_token(self.get(), self.stop()); });
           })
      .def("next_tokens", next_tokens)
      .def("prompt_count",
           [](const Generator& self) {
             const CallLock lock(*self.calls);
             return api->generator_prompt_count(self.get());
           })
      .def(
          "token_count",
          [](const Generator& self, size_t prompt) {
            const CallLock lock(*self.calls);
            return api->generator_token_count(self.get(), prompt);
          },
          nb::arg("prompt"))
      .def(
          "rewind_to",
          [](Generator& self, size_t prompt, size_t length) {
            const CallLock lock(*self.calls);
            check(api->generator_rewind_to(self.get(), prompt, length));
          },
          nb::arg("prompt"), nb::arg("length"))
      .def("logits", logits)
      .def("step_logits", step_logits)
      .def("set_logits", set_logits, nb::arg("logits"))
      .def(
          "output",
          [](Generator& self, const std::string& name) {
            return read(self, name, api->generator_get_output);
          },
          nb::arg("name"))
      .def(
          "input",
          [](Generator& self, const std::string& name) {
            return read(self, name, api->generator_get_input);
          },
          nb::arg("name"))
      .def("sequence_count", sequence_count)
      .def("sequence", sequence, nb::arg("index"));
  module.def("generator", make, nb::arg("model"), nb::arg("params"));
}

}  // namespace lathe_python
