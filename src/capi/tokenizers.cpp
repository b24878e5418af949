// SPDX-License-Identifier: MIT
#include "capi/handles.h"
#include "llm/model/hub_cache.h"
#include "llm/tokenizer/load.h"

namespace lathe::capi {
namespace {

using tokenizer::EncodeOptions;
using tokenizer::Encoding;

tokenizer::LoadOptions load_options(const lathe_tokenizer_options* given) {
  const lathe_tokenizer_options options = known(given);
  tokenizer::LoadOptions out;
  if (options.pattern != nullptr) out.pattern = options.pattern;
  return out;
}

EncodeOptions encode_options(const lathe_encode_options& given) {
  EncodeOptions out;
  out.add_special_tokens = given.no_special_tokens == 0;
  out.detailed = given.with_offsets != 0;
  out.replace_invalid = given.replace_invalid != 0;
  out.special_as_text = given.special_as_text != 0;
  out.truncate_and_pad = given.no_padding == 0;
  return out;
}

void give(lathe_text_sink sink, void* context, std::string_view text) {
  check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
  sink(context, text.data(), text.size());
}

lathe_error* load(const char* path, const lathe_tokenizer_options* options, lathe_tokenizer** out) {
  return guarded([&] {
    demand(out, "tokenizer");
    *out = new lathe_tokenizer{tokenizer::load_tokenizer(llm::resolve_model(&demand(path, "path")),
                                                         load_options(options))};
  });
}

lathe_error* load_memory(const void* data, size_t bytes, const char* name,
                         const lathe_tokenizer_options* options, lathe_tokenizer** out) {
  return guarded([&] {
    demand(out, "tokenizer");
    const auto file = view({static_cast<const char*>(data), bytes}, "data");
    const std::string called = name != nullptr ? name : "<memory>";
    *out =
        new lathe_tokenizer{tokenizer::load_tokenizer_bytes(file, called, load_options(options))};
  });
}

size_t size(const lathe_tokenizer* handle) { return handle->tokenizer->size(); }

uint32_t token_to_id(const lathe_tokenizer* handle, lathe_text token) {
  return handle->tokenizer->token_to_id(std::string_view(token.data, token.bytes));
}

lathe_error* id_to_token(const lathe_tokenizer* handle, uint32_t id, lathe_text_sink sink,
                         void* context) {
  return guarded([&] {
    const auto token = demand(handle, "tokenizer").tokenizer->id_to_token(id);
    check(token.has_value(), ErrorKind::invalid_argument, "unknown token id {}", id);
    give(sink, context, *token);
  });
}

const char* special_token(const lathe_tokenizer* handle, const char* name) {
  const auto& names = handle->tokenizer->parts().special_tokens;
  const auto it = name != nullptr ? names.find(name) : names.end();
  return it == names.end() ? nullptr : it->second.c_str();
}

lathe_error* encode(const lathe_tokenizer* handle, lathe_text text, const lathe_text* pair,
                    const lathe_encode_options* given, lathe_encoding** out) {
  return guarded([&] {
    demand(out, "encoding");
    const auto& tokenizer = *demand(handle, "tokenizer").tokenizer;
    const EncodeOptions options = encode_options(known(given));
    const std::string_view first = view(text, "text");
    *out = new lathe_encoding(pair == nullptr
                                  ? tokenizer.encode(first, options)
                                  : tokenizer.encode_pair(first, view(*pair, "pair"), options));
  });
}

lathe_error* encode_batch(const lathe_tokenizer* handle, const lathe_text* texts, size_t count,
                          const lathe_encode_options* given, lathe_encoding** out) {
  return guarded([&] {
    if (count == 0) return;
    demand(texts, "texts");
    demand(out, "encodings");
    const lathe_encode_options options = known(given);
    check(options.threads >= 0, ErrorKind::invalid_argument, "threads is {}, expected 0 or more",
          options.threads);
    std::vector<std::string_view> views;
    for (size_t i = 0; i < count; ++i) views.push_back(view(texts[i], fmt::format("texts[{}]", i)));
    ThreadPool pool(std::max(options.threads, 1));
    std::vector<Encoding> encodings =
        demand(handle, "tokenizer").tokenizer->encode_batch(views, encode_options(options), &pool);
    std::vector<std::unique_ptr<lathe_encoding>> made;
    for (Encoding& encoding : encodings) {
      made.push_back(std::make_unique<lathe_encoding>(std::move(encoding)));
    }
    for (size_t i = 0; i < count; ++i) out[i] = made[i].release();
  });
}

lathe_error* decode(const lathe_tokenizer* handle, const uint32_t* ids, size_t count, int keep,
                    lathe_text_sink sink, void* context) {
  return guarded([&] {
    const auto& tokenizer = *demand(handle, "tokenizer").tokenizer;
    if (count > 0) demand(ids, "ids");
    give(sink, context, tokenizer.decode({ids, count}, keep == 0));
  });
}

lathe_error* create_stream(const lathe_tokenizer* handle, int keep, lathe_decode_stream** out) {
  return guarded([&] {
    demand(out, "stream");
    *out = new lathe_decode_stream{
        tokenizer::DecodeStream(demand(handle, "tokenizer").tokenizer, keep == 0)};
  });
}

lathe_error* step(lathe_decode_stream* handle, uint32_t id, lathe_text_sink sink, void* context) {
  return guarded([&] {
    lathe_decode_stream& stream = demand(handle, "stream");
    stream.piece.clear();
    stream.stream.step(id, stream.piece);
    give(sink, context, stream.piece);
  });
}

lathe_error* finish_stream(lathe_decode_stream* handle, lathe_text_sink sink, void* context) {
  return guarded([&] { give(sink, context, demand(handle, "stream").stream.finish()); });
}

lathe_error* create_stops(const lathe_text* strings, size_t count, lathe_stop_strings** out) {
  return guarded([&] {
    demand(out, "stops");
    if (count > 0) demand(strings, "strings");
    std::vector<std::string> list;
    for (size_t i = 0; i < count; ++i) {
      list.emplace_back(view(strings[i], fmt::format("strings[{}]", i)));
    }
    *out = new lathe_stop_strings{tokenizer::StopStrings(std::move(list))};
  });
}

lathe_error* push(lathe_stop_strings* handle, lathe_text text, lathe_text_sink sink,
                  void* context) {
  return guarded(
      [&] { give(sink, context, demand(handle, "stops").stops.push(view(text, "text"))); });
}

lathe_error* finish_stops(lathe_stop_strings* handle, lathe_text_sink sink, void* context) {
  return guarded([&] { give(sink, context, demand(handle, "stops").stops.finish()); });
}

int64_t found(const lathe_stop_strings* handle) {
  const auto index = handle->stops.found();
  return index ? static_cast<int64_t>(*index) : -1;
}

lathe_text token(const lathe_encoding* handle, size_t index) {
  const auto& tokens = handle->encoding.tokens;
  if (index >= tokens.size()) return {nullptr, 0};
  return {tokens[index].data(), tokens[index].size()};
}

const lathe_encoding* overflow(const lathe_encoding* handle, size_t index) {
  return index < handle->overflowing.size() ? handle->overflowing[index].get() : nullptr;
}

}  // namespace

void add_tokenizers(lathe_api& api) {
  api.tokenizer_load = load;
  api.tokenizer_load_memory = load_memory;
  api.tokenizer_size = size;
  api.tokenizer_token_to_id = token_to_id;
  api.tokenizer_id_to_token = id_to_token;
  api.tokenizer_special_token = special_token;
  api.tokenizer_encode = encode;
  api.tokenizer_encode_batch = encode_batch;
  api.tokenizer_decode = decode;
  api.tokenizer_free = [](lathe_tokenizer* handle) { delete handle; };
  api.decode_stream_create = create_stream;
  api.decode_stream_step = step;
  api.decode_stream_finish = finish_stream;
  api.decode_stream_free = [](lathe_decode_stream* handle) { delete handle; };
  api.stop_strings_create = create_stops;
  api.stop_strings_push = push;
  api.stop_strings_finish = finish_stops;
  api.stop_strings_found = found;
  api.stop_strings_free = [](lathe_stop_strings* handle) { delete handle; };
}

void add_encodings(lathe_api& api) {
  api.encoding_count = [](const lathe_encoding* e) { return e->encoding.ids.size(); };
  api.encoding_ids = [](const lathe_encoding* e) { return e->encoding.ids.data(); };
  api.encoding_type_ids = [](const lathe_encoding* e) {
    return e->encoding.detailed ? e->encoding.type_ids.data() : nullptr;
  };
  api.encoding_offsets = [](const lathe_encoding* e) {
    return e->encoding.detailed ? e->offsets.data() : nullptr;
  };
  api.encoding_words = [](const lathe_encoding* e) {
    return e->encoding.detailed ? e->encoding.words.data() : nullptr;
  };
  api.encoding_special_tokens_mask = [](const lathe_encoding* e) {
    return e->encoding.detailed ? e->encoding.special_tokens_mask.data() : nullptr;
  };
  api.encoding_attention_mask = [](const lathe_encoding* e) {
    return e->encoding.detailed ? e->encoding.attention_mask.data() : nullptr;
  };
  api.encoding_token = token;
  api.encoding_overflow_count = [](const lathe_encoding* e) { return e->overflowing.size(); };
  api.encoding_overflow = overflow;
  api.encoding_free = [](lathe_encoding* e) { delete e; };
}

}  // namespace lathe::capi

lathe_encoding::lathe_encoding(lathe::tokenizer::Encoding made) : encoding(std::move(made)) {
  for (const auto& [begin, end] : encoding.offsets) offsets.push_back({begin, end});
  for (lathe::tokenizer::Encoding& overflow : encoding.overflowing) {
    overflowing.push_back(std::make_unique<lathe_encoding>(std::move(overflow)));
  }
  encoding.overflowing.clear();
}
