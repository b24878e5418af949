// SPDX-License-Identifier: MIT
// Runs tokenizers for tests in Python: reads a JSON object per line and writes one per line, or
// {"error": kind, "message": text}.
#include <nlohmann/json.hpp>

#include <iostream>
#include <map>

#include "base/error.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/stream.h"

namespace {

using nlohmann::json;
using namespace lathe;
using namespace lathe::tokenizer;

std::map<std::string, std::shared_ptr<const Tokenizer>> loaded;

json details(const Encoding& encoding) {
  json out{{"ids", encoding.ids}};
  if (encoding.detailed) {
    json words = json::array();
    for (const int64_t word : encoding.words) {
      words.push_back(word == Encoding::kNoWord ? json() : json(word));
    }
    out["type_ids"] = encoding.type_ids;
    out["tokens"] = encoding.tokens;
    out["words"] = std::move(words);
    out["offsets"] = encoding.offsets;
    out["special_tokens_mask"] = encoding.special_tokens_mask;
    out["attention_mask"] = encoding.attention_mask;
    json overflowing = json::array();
    for (const Encoding& overflow : encoding.overflowing) overflowing.push_back(details(overflow));
    out["overflowing"] = std::move(overflowing);
  }
  return out;
}

EncodeOptions options_of(const json& question) {
  EncodeOptions options;
  options.add_special_tokens = question.value("special", true);
  options.detailed = question.value("detailed", true);
  options.replace_invalid = question.value("replace", false);
  options.special_as_text = question.value("special_as_text", false);
  return options;
}

json encode(const Tokenizer& tokenizer, const json& question) {
  const EncodeOptions options = options_of(question);
  const std::string text = question.at("text");
  if (question.contains("pair")) {
    const std::string pair = question.at("pair");
    return details(tokenizer.encode_pair(text, pair, options));
  }
  return details(tokenizer.encode(text, options));
}

json encode_batch(const Tokenizer& tokenizer, const json& question) {
  const auto texts = question.at("texts").get<std::vector<std::string>>();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  ThreadPool pool(question.value("threads", 2));
  json out = json::array();
  for (const Encoding& encoding : tokenizer.encode_batch(views, options_of(question), &pool)) {
    out.push_back(details(encoding));
  }
  return out;
}

// Checks that `detailed` does not change ids, then decodes.
json compare(const Tokenizer& tokenizer, const json& question) {
  EncodeOptions options = options_of(question);
  const std::string text = question.at("text");
  const Encoding full = tokenizer.encode(text, options);
  options.detailed = false;
  json out = details(full);
  out["same"] = tokenizer.encode(text, options).ids == full.ids;
  out["decoded"] = tokenizer.decode(full.ids, question.value("skip", true));
  return out;
}

json stream(const std::shared_ptr<const Tokenizer>& tokenizer, const json& question) {
  DecodeStream stream(tokenizer, question.value("skip", true));
  json out = json::array();
  for (const uint32_t id : question.at("ids").get<std::vector<uint32_t>>()) {
    out.push_back(stream.step(id));
  }
  out.push_back(stream.finish());
  return out;
}

json answer(const json& question) {
  const std::string op = question.at("op");
  if (op == "load") {
    LoadOptions options;
    options.pattern = question.value("pattern", "");
    const std::string name = question.value("name", std::string(question.at("path")));
    loaded[name] = load_tokenizer(question.at("path"), options);
    return {{"size", loaded[name]->size()}};
  }
  const std::shared_ptr<const Tokenizer>& tokenizer = loaded.at(question.at("name"));
  if (op == "encode") return encode(*tokenizer, question);
  if (op == "batch") return encode_batch(*tokenizer, question);
  if (op == "compare") return compare(*tokenizer, question);
  if (op == "stream") return stream(tokenizer, question);
  if (op == "decode") {
    const auto ids = question.at("ids").get<std::vector<uint32_t>>();
    return {{"text", tokenizer->decode(ids, question.value("skip", true))}};
  }
  if (op == "token") {
    const auto token = tokenizer->id_to_token(question.at("id"));
    return {{"token", token ? json(*token) : json()}};
  }
  if (op == "id") return {{"id", tokenizer->token_to_id(std::string(question.at("token")))}};
  fail(ErrorKind::invalid_argument, "unknown op '{}'", op);
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    json reply;
    try {
      reply = answer(json::parse(line));
    } catch (const Error& error) {
      reply = {{"error", std::string(error_kind_info(error.kind()).name)},
               {"message", error.what()}};
    }
    std::cout << reply.dump(-1, ' ', false, json::error_handler_t::replace) << '\n' << std::flush;
  }
  return 0;
}
