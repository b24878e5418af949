// SPDX-License-Identifier: MIT
// Tokenizers, incremental decoding, chat templates.
#include "tokenizers.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"

namespace lathe_python {
namespace {

nb::object ids_of(const lathe_encoding* encoding) {
  const int64_t count = static_cast<int64_t>(api->encoding_count(encoding));
  void* data = nullptr;
  PyObject* array = new_array(LATHE_I32, &count, 1, &data);
  if (array == nullptr) throw nb::python_error();
  const uint32_t* ids = api->encoding_ids(encoding);
  for (int64_t i = 0; i < count; ++i) static_cast<int32_t*>(data)[i] = static_cast<int32_t>(ids[i]);
  return nb::steal(array);
}

Tokenizer load(const std::string& path) {
  lathe_tokenizer* made = nullptr;
  unlocked([&] { return api->tokenizer_load(path.c_str(), nullptr, &made); });
  return Tokenizer{Handle<lathe_tokenizer>(made, api->tokenizer_free)};
}

Tokenizer load_memory(const nb::bytes& bytes, const std::string& name) {
  lathe_tokenizer* made = nullptr;
  unlocked([&] {
    return api->tokenizer_load_memory(bytes.data(), bytes.size(), name.c_str(), nullptr, &made);
  });
  return Tokenizer{Handle<lathe_tokenizer>(made, api->tokenizer_free)};
}

nb::object encode(const Tokenizer& self, const std::string& text, bool add_special_tokens) {
  auto options = init<lathe_encode_options>();
  options.no_special_tokens = add_special_tokens ? 0 : 1;
  lathe_encoding* made = nullptr;
  unlocked([&] {
    return api->tokenizer_encode(self.handle.get(), text_of(text), nullptr, &options, &made);
  });
  const Handle<lathe_encoding> encoding(made, api->encoding_free);
  return ids_of(encoding.get());
}

nb::list encode_batch(const Tokenizer& self, const std::vector<std::string>& texts,
                      bool add_special_tokens, int threads) {
  auto options = init<lathe_encode_options>();
  options.no_special_tokens = add_special_tokens ? 0 : 1;
  options.threads = threads;
  std::vector<lathe_text> list;
  for (const std::string& text : texts) list.push_back(text_of(text));
  std::vector<lathe_encoding*> made(texts.size());
  unlocked([&] {
    return api->tokenizer_encode_batch(self.handle.get(), list.data(), list.size(), &options,
                                       made.data());
  });
  std::vector<Handle<lathe_encoding>> owned;
  for (lathe_encoding* encoding : made) owned.emplace_back(encoding, api->encoding_free);
  nb::list out;
  for (const auto& encoding : owned) out.append(ids_of(encoding.get()));
  return out;
}

// An id of 32 bits; negative ones are unknown tokens.
uint32_t token_of(int64_t id) {
  if (id < INT32_MIN || id > INT32_MAX) {
    const std::string text = "token " + std::to_string(id) + " does not fit 32 bits";
    throw nb::type_error(text.c_str());
  }
  return id < 0 ? UINT32_MAX : static_cast<uint32_t>(id);
}

std::string decode(const Tokenizer& self, const std::vector<int64_t>& ids, bool keep_special) {
  std::vector<uint32_t> list;
  for (const int64_t id : ids) list.push_back(token_of(id));
  std::string text;
  unlocked([&] {
    return api->tokenizer_decode(self.handle.get(), list.data(), list.size(), keep_special ? 1 : 0,
                                 append_text, &text);
  });
  return text;
}

nb::object token_to_id(const Tokenizer& self, const std::string& token) {
  const uint32_t id = api->tokenizer_token_to_id(self.handle.get(), text_of(token));
  return id == UINT32_MAX ? nb::none() : nb::object(nb::int_(id));
}

struct Stream {
  nb::object tokenizer;
  Handle<lathe_decode_stream> handle;
};

Stream make_stream(nb::object tokenizer, bool keep_special) {
  lathe_decode_stream* made = nullptr;
  check(api->decode_stream_create(nb::cast<Tokenizer&>(tokenizer).handle.get(),
                                  keep_special ? 1 : 0, &made));
  return {std::move(tokenizer), Handle<lathe_decode_stream>(made, api->decode_stream_free)};
}

nb::str step(Stream& self, int64_t id) {
  std::string text;
  check(api->decode_stream_step(self.handle.get(), token_of(id), append_text, &text));
  return to_str(text);
}

std::string render(const ChatTemplate& self, const std::string& request) {
  std::string text;
  unlocked([&] {
    return api->chat_template_render(self.handle.get(), text_of(request), append_text, &text,
                                     nullptr, nullptr);
  });
  return text;
}

}  // namespace

void add_tokenizers(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def("encode", encode, nb::arg("text"), nb::arg("add_special_tokens") = true)
      .def("encode_batch", encode_batch, nb::arg("texts"), nb::arg("add_special_tokens") = true,
           nb::arg("threads") = 1)
      .def("decode", decode, nb::arg("ids"), nb::arg("keep_special_tokens") = false)
      .def("size", [](const Tokenizer& self) { return api->tokenizer_size(self.handle.get()); })
      .def("token_to_id", token_to_id, nb::arg("token"))
      .def(
          "special_token",
          [](const Tokenizer& self, const std::string& name) -> nb::object {
            const char* token = api->tokenizer_special_token(self.handle.get(), name.c_str());
            return token == nullptr ? nb::none() : nb::object(to_str(token));
          },
          nb::arg("name"));
  nb::class_<Stream>(module, "DecodeStream")
      .def("step", step, nb::arg("id"))
      .def("finish", [](Stream& self) {
        std::string text;
        check(api->decode_stream_finish(self.handle.get(), append_text, &text));
        return to_str(text);
      });
  nb::class_<ChatTemplate>(module, "ChatTemplate").def("render", render, nb::arg("request"));
  module.def("load_tokenizer", load, nb::arg("path"));
  module.def("load_tokenizer_memory", load_memory, nb::arg("bytes"), nb::arg("name"));
  module.def("decode_stream", make_stream, nb::arg("tokenizer"),
             nb::arg("keep_special_tokens") = false);
  module.def(
      "chat_template_from_source",
      [](const std::string& source) {
        lathe_chat_template* made = nullptr;
        check(api->chat_template_create(text_of(source), &made));
        return ChatTemplate{Handle<lathe_chat_template>(made, api->chat_template_free)};
      },
      nb::arg("source"));
  module.def(
      "load_chat_template",
      [](const std::string& path) {
        lathe_chat_template* made = nullptr;
        check(api->chat_template_load(path.c_str(), &made));
        return ChatTemplate{Handle<lathe_chat_template>(made, api->chat_template_free)};
      },
      nb::arg("path"));
}

}  // namespace lathe_python
