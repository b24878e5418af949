// SPDX-License-Identifier: MIT
// Reads tokenizer.json. Vocabulary and merges are read from simdjson's tape, the small parts from
// copies.
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/json_error.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/json_fields.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/unigram.h"
#include "llm/tokenizer/word_piece.h"

namespace lathe::tokenizer {
namespace {

namespace dom = simdjson::dom;
constexpr size_t kMaxJsonDepth = 48;

std::string_view type_name(dom::element element) {
  switch (element.type()) {
    case dom::element_type::ARRAY:
      return "array";
    case dom::element_type::OBJECT:
      return "object";
    case dom::element_type::STRING:
      return "string";
    case dom::element_type::BOOL:
      return "boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "number";
  }
}

// Describes a syntax error. simdjson has no position, so nlohmann parses the text again.
std::string describe(simdjson::error_code error, std::string_view text) {
  struct Finder : nlohmann::json_sax<Json> {
    size_t byte = 0;
    bool is_number = false;
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(size_t) override { return true; }
    bool key(string_t&) override { return true; }
    bool end_object() override { return true; }
    bool start_array(size_t) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(size_t position, const std::string&,
                     const nlohmann::detail::exception& problem) override {
      byte = position;
      is_number = dynamic_cast<const Json::out_of_range*>(&problem) != nullptr;
      return false;
    }
  };
  if (error == simdjson::DEPTH_ERROR)
    return fmt::format("is nested deeper than {} levels", kMaxJsonDepth);
  Finder finder;
  const bool is_valid = Json::sax_parse(text.begin(), text.end(), &finder);
  if (finder.is_number || error == simdjson::NUMBER_ERROR) {
    return "has a number that is out of range";
  }
  return is_valid ? "is not valid JSON"
                  : fmt::format("is not valid JSON: {}", json_error(text, finder.byte));
}

dom::object as_object(dom::element element, std::string_view where) {
  dom::object out;
  check(element.get_object().get(out) == simdjson::SUCCESS, ErrorKind::invalid_model,
        "{} is {}, expected an object", where, type_name(element));
  return out;
}
dom::array as_array(dom::element element, std::string_view where) {
  dom::array out;
  check(element.get_array().get(out) == simdjson::SUCCESS, ErrorKind::invalid_model,
        "{} is {}, expected an array", where, type_name(element));
  return out;
}

// nullopt for an absent or null field.
std::optional<dom::element> find(dom::object object, std::string_view name) {
  dom::element out;
  if (object.at_key(name).get(out) != simdjson::SUCCESS || out.is_null()) return std::nullopt;
  return out;
}

// Copies an element; the parser bounds the depth.
Json copy(dom::element element) {
  switch (element.type()) {
    case dom::element_type::ARRAY: {
      Json out = Json::array();
      for (const dom::element item : dom::array(element)) out.push_back(copy(item));
      return out;
    }
    case dom::element_type::OBJECT: {
      Json out = Json::object();
      for (const auto [key, value] : dom::object(element)) out[std::string(key)] = copy(value);
      return out;
    }
    case dom::element_type::STRING:
      return std::string(std::string_view(element));
    case dom::element_type::BOOL:
      return bool(element);
    case dom::element_type::INT64: {
      const auto value = int64_t(element);
      return value >= 0 ? Json(static_cast<uint64_t>(value)) : Json(value);
    }
    case dom::element_type::UINT64:
      return uint64_t(element);
    case dom::element_type::DOUBLE:
      return double(element);
    case dom::element_type::NULL_VALUE:
      break;
  }
  return nullptr;
}

Json copy_field(dom::object object, std::string_view name) {
  const auto field = find(object, name);
  return field ? copy(*field) : Json();
}

Vocabulary read_vocabulary(dom::element element, Vocabulary::Form form) {
  const dom::object object = as_object(element, "model.vocab");
  Vocabulary vocabulary(form);
  size_t bytes = 0;
  size_t count = 0;
  for (const auto [token, id] : object) {
    bytes += token.size();
    ++count;
  }
  vocabulary.reserve(count, bytes);
  for (const auto [token, id] : object) {
    uint64_t number = 0;
    if (id.get_uint64().get(number) != simdjson::SUCCESS || number > kMaxId) {
      fail(ErrorKind::invalid_model, "model.vocab['{}'] is {}, expected an integer from 0 to {}",
           escape(token), escape(simdjson::minify(id), 40), kMaxId);
    }
    vocabulary.add(token, static_cast<uint32_t>(number));
  }
  vocabulary.finish();
  return vocabulary;
}

// Formats messages only on failure: there are hundreds of thousands of merges.
std::pair<std::string_view, std::string_view> read_merge(dom::element element, size_t index) {
  std::string_view text;
  if (element.get_string().get(text) == simdjson::SUCCESS) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      fail(ErrorKind::invalid_model,
           "model.merges[{}] is '{}', expected two tokens with one space between them", index,
           escape(text));
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }
  std::string_view parts[2];
  size_t count = 0;
  dom::array list;
  bool good = element.get_array().get(list) == simdjson::SUCCESS;
  if (good) {
    for (const dom::element part : list) {
      good = good && count < 2 && part.get_string().get(parts[count]) == simdjson::SUCCESS;
      ++count;
    }
  }
  if (!good || count != 2) {
    fail(ErrorKind::invalid_model, "model.merges[{}] is {}, expected two strings", index,
         escape(simdjson::minify(element), 80));
  }
  return {parts[0], parts[1]};
}

MergeTable read_merges(dom::element element, const Vocabulary& vocabulary,
                       const BpeOptions& options) {
  const dom::array merges = as_array(element, "model.merges");
  MergeTable table;
  table.reserve(merges.size());
  MergeReader reader(vocabulary, options.continuing_subword_prefix.value_or("").size());
  size_t index = 0;
  for (const dom::element merge : merges) {
    std::string_view text;
    if (merge.get_string().get(text) == simdjson::SUCCESS && text.starts_with("#version")) continue;
    const auto [left, right] = read_merge(merge, index);
    reader.add(left, right, index++, table);
  }
  return table;
}

// True if the last step of the pre-tokenizer is ByteLevel.
bool ends_in_byte_level(const Json& pre_tokenizer) {
  const Json* step = &pre_tokenizer;
  for (size_t depth = 0; depth < kMaxJsonDepth; ++depth) {
    if (!step->is_object() || !step->contains("type")) return false;
    if ((*step)["type"] == "ByteLevel") return true;
    const auto list = step->find("pretokenizers");
    if ((*step)["type"] != "Sequence" || list == step->end() || !list->is_array() ||
        list->empty()) {
      return false;
    }
    step = &list->back();
  }
  return false;
}

std::unique_ptr<Model> read_bpe(dom::object model, bool byte_level, PreTokenizer* pre_tokenizer) {
  const auto vocab = find(model, "vocab");
  const auto merges = find(model, "merges");
  check(vocab && merges, ErrorKind::invalid_model, "model of type {} has no '{}'", "BPE",
        vocab ? "merges" : "vocab");
  const Json dropout = copy_field(model, "dropout");
  check(dropout.is_null() || (dropout.is_number() && dropout.get<double>() == 0),
        ErrorKind::unsupported, "model.dropout is {}, expected null: dropout makes results random",
        escape(dropout.dump(-1, ' ', false, Json::error_handler_t::replace), 40));
  Json rest = Json::object();
  for (const char* name : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                           "fuse_unk", "byte_fallback", "ignore_merges"}) {
    rest[name] = copy_field(model, name);
  }
  BpeOptions options;
  options.unk_token = optional_text(rest, "unk_token", "model");
  options.continuing_subword_prefix = optional_text(rest, "continuing_subword_prefix", "model");
  options.end_of_word_suffix = optional_text(rest, "end_of_word_suffix", "model");
  // An empty affix changes nothing.
  if (options.continuing_subword_prefix == "") options.continuing_subword_prefix.reset();
  if (options.end_of_word_suffix == "") options.end_of_word_suffix.reset();
  options.fuse_unk = flag_field(rest, "fuse_unk", "model", false);
  options.byte_fallback = flag_field(rest, "byte_fallback", "model", false);
  options.ignore_merges = flag_field(rest, "ignore_merges", "model", false);

  if (byte_level && pre_tokenizer != nullptr && !options.continuing_subword_prefix) {
    Vocabulary bytes = read_vocabulary(*vocab, Vocabulary::Form::bytes);
    if (Bpe::covers_bytes(bytes, options) && pre_tokenizer->leave_bytes()) {
      MergeTable table = read_merges(*merges, bytes, options);
      return std::make_unique<Bpe>(std::move(bytes), std::move(table), std::move(options));
    }
  }
  Vocabulary text = read_vocabulary(*vocab, Vocabulary::Form::text);
  MergeTable table = read_merges(*merges, text, options);
  return std::make_unique<Bpe>(std::move(text), std::move(table), std::move(options));
}

// The reference parses a score's digits as one integer, rounds it, then scales it. The result is
// not always the nearest double, and ties between paths depend on it. Files have the shortest
// digits, so the value determines them.
double as_read_by_reference(double value) {
  std::array<char, 40> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), std::fabs(value),
                                 std::chars_format::scientific)
                       .ptr;
  uint64_t digits = 0;
  int exponent = 0;
  const char* at = text.data();
  for (bool fraction = false; at < end && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    if (fraction) --exponent;
  }
  int scale = 0;
  if (at + 1 < end) std::from_chars(at + (at[1] == '+' ? 2 : 1), end, scale);
  exponent += scale;
  constexpr int kLastPower = 22;  // 10^22 is the largest exact power in a double
  double out = static_cast<double>(digits);
  if (exponent > kLastPower || exponent < -kLastPower) return value;
  double power = 1;
  for (int i = 0; i < std::abs(exponent); ++i) power *= 10;
  out = exponent >= 0 ? out * power : out / power;
  return value < 0 ? -out : out;
}

std::unique_ptr<Model> read_unigram(dom::object model) {
  const auto vocab = find(model, "vocab");
  check(vocab.has_value(), ErrorKind::invalid_model, "model of type {} has no 'vocab'", "Unigram");
  const dom::array list = as_array(*vocab, "model.vocab");
  std::vector<std::pair<std::string, double>> pieces;
  pieces.reserve(list.size());
  for (const dom::element item : list) {
    dom::array pair;
    std::string_view token;
    double score = 0;
    if (item.get_array().get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
        pair.at(0).get_string().get(token) != simdjson::SUCCESS ||
        pair.at(1).get_double().get(score) != simdjson::SUCCESS) {
      fail(ErrorKind::invalid_model, "model.vocab[{}] is {}, expected a token and its score",
           pieces.size(), escape(simdjson::minify(item), 80));
    }
    pieces.emplace_back(token, as_read_by_reference(score));
  }
  const Json unk = copy_field(model, "unk_id");
  const Json fallback = copy_field(model, "byte_fallback");
  std::optional<uint32_t> unk_id;
  if (!unk.is_null()) unk_id = to_id(unk, "model.unk_id");
  return std::make_unique<Unigram>(std::move(pieces), unk_id,
                                   !fallback.is_null() && to_flag(fallback, "model.byte_fallback"));
}

std::unique_ptr<Model> read_words(dom::object model, bool pieces) {
  Json rest = Json::object();
  for (const char* name : {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}) {
    rest[name] = copy_field(model, name);
  }
  const auto vocab = find(model, "vocab");
  check(vocab.has_value(), ErrorKind::invalid_model, "model of type {} has no 'vocab'",
        pieces ? "WordPiece" : "WordLevel");
  Vocabulary vocabulary = read_vocabulary(*vocab, Vocabulary::Form::text);
  std::string unk_token = text_field(rest, "unk_token", "model");
  if (!pieces) return std::make_unique<WordLevel>(std::move(vocabulary), std::move(unk_token));
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(unk_token),
                                     text_field(rest, "continuing_subword_prefix", "model"),
                                     to_count(get_field(rest, "max_input_chars_per_word", "model"),
                                              "model.max_input_chars_per_word"));
}

// Old files have no type; the fields determine it.
std::string model_type(dom::object model) {
  const Json type = copy_field(model, "type");
  if (!type.is_null()) return to_text(type, "model.type");
  if (find(model, "merges")) return "BPE";
  const auto vocab = find(model, "vocab");
  if (vocab && vocab->is_array()) return "Unigram";
  return find(model, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

std::unique_ptr<Model> read_model(dom::element element, const Json& pre_tokenizer_element,
                                  PreTokenizer* pre_tokenizer) {
  const dom::object model = as_object(element, "model");
  const std::string type = model_type(model);
  if (type == "BPE") {
    return read_bpe(model, ends_in_byte_level(pre_tokenizer_element), pre_tokenizer);
  }
  if (type == "Unigram") return read_unigram(model);
  if (type == "WordPiece" || type == "WordLevel") return read_words(model, type == "WordPiece");
  fail(ErrorKind::unsupported, "model.type is '{}', expected BPE, Unigram, WordPiece or WordLevel",
       escape(type));
}

std::optional<Truncation> read_truncation(const Json& element) {
  if (element.is_null()) return std::nullopt;
  const std::string_view where = "truncation";
  Truncation out;
  out.max_length = to_count(get_field(element, "max_length", where), "truncation.max_length");
  out.stride = to_count(get_field(element, "stride", where), "truncation.stride");
  const std::string strategy = text_field(element, "strategy", where);
  check(strategy == "LongestFirst" || strategy == "OnlyFirst" || strategy == "OnlySecond",
        ErrorKind::invalid_model,
        "truncation.strategy is '{}', expected LongestFirst, OnlyFirst or OnlySecond",
        escape(strategy));
  out.strategy = strategy == "LongestFirst" ? Truncation::Strategy::longest_first
                 : strategy == "OnlyFirst"  ? Truncation::Strategy::only_first
                                            : Truncation::Strategy::only_second;
  const std::string direction = optional_text(element, "direction", where).value_or("Right");
  check(direction == "Left" || direction == "Right", ErrorKind::invalid_model,
        "truncation.direction is '{}', expected Left or Right", escape(direction));
  out.left = direction == "Left";
  return out;
}

std::optional<Padding> read_padding(const Json& element) {
  if (element.is_null()) return std::nullopt;
  const std::string_view where = "padding";
  Padding out;
  const Json& strategy = get_field(element, "strategy", where);
  if (strategy.is_object()) {
    out.length =
        to_count(get_field(strategy, "Fixed", "padding.strategy"), "padding.strategy.Fixed");
  } else {
    const std::string name = to_text(strategy, "padding.strategy");
    check(name == "BatchLongest", ErrorKind::invalid_model,
          "padding.strategy is '{}', expected BatchLongest or Fixed", escape(name));
  }
  const std::string direction = text_field(element, "direction", where);
  check(direction == "Left" || direction == "Right", ErrorKind::invalid_model,
        "padding.direction is '{}', expected Left or Right", escape(direction));
  out.left = direction == "Left";
  if (const Json* multiple = find_field(element, "pad_to_multiple_of", where)) {
    out.multiple_of = to_count(*multiple, "padding.pad_to_multiple_of", 1 << 28);
  }
  out.id = to_id(get_field(element, "pad_id", where), "padding.pad_id");
  out.type_id = to_id(get_field(element, "pad_type_id", where), "padding.pad_type_id");
  out.token = text_field(element, "pad_token", where);
  return out;
}

bool read_flag(dom::object object, std::string_view name, bool otherwise, size_t index) {
  const auto field = find(object, name);
  bool value = otherwise;
  if (field && field->get_bool().get(value) != simdjson::SUCCESS) {
    fail(ErrorKind::invalid_model, "added_tokens[{}].{} is {}, expected true or false", index, name,
         type_name(*field));
  }
  return value;
}

// The order of the tokens determines their ids, but a written id must be valid.
void check_id(dom::object token, size_t index) {
  const auto field = find(token, "id");
  uint64_t id = 0;
  const bool good = !field || (field->get_uint64().get(id) == simdjson::SUCCESS && id <= kMaxId);
  if (good) return;
  fail(ErrorKind::invalid_model, "added_tokens[{}].id is {}, expected an integer from 0 to {}",
       index, escape(simdjson::minify(*field), 40), kMaxId);
}

std::vector<AddedToken> read_added_tokens(dom::object file) {
  std::vector<AddedToken> out;
  const auto element = find(file, "added_tokens");
  if (!element) return out;
  const dom::array list = as_array(*element, "added_tokens");
  out.reserve(list.size());
  for (const dom::element item : list) {
    const size_t i = out.size();
    dom::object token;
    std::string_view content;
    if (item.get_object().get(token) != simdjson::SUCCESS ||
        token.at_key("content").get_string().get(content) != simdjson::SUCCESS) {
      fail(ErrorKind::invalid_model, "added_tokens[{}] is {}, expected an object with content", i,
           escape(simdjson::minify(item), 80));
    }
    check_id(token, i);
    out.push_back({std::string(content), read_flag(token, "single_word", false, i),
                   read_flag(token, "lstrip", false, i), read_flag(token, "rstrip", false, i),
                   read_flag(token, "normalized", true, i), read_flag(token, "special", false, i)});
  }
  return out;
}

}  // namespace

Parts read_tokenizer_json(std::string_view bytes) {
  dom::parser parser;
  check(parser.allocate(bytes.size(), kMaxJsonDepth) == simdjson::SUCCESS, ErrorKind::out_of_memory,
        "no memory for a tokenizer of {} bytes", bytes.size());
  dom::element root;
  const simdjson::error_code error = parser.parse(bytes.data(), bytes.size()).get(root);
  if (error != simdjson::SUCCESS) {
    fail(ErrorKind::invalid_model, "the file ({} bytes) {}", bytes.size(), describe(error, bytes));
  }
  const dom::object object = as_object(root, "the file");
  const Json version = copy_field(object, "version");
  check(version.is_null() || version == "1.0", ErrorKind::unsupported,
        "version is {}, expected \"1.0\"",
        escape(version.dump(-1, ' ', false, Json::error_handler_t::replace), 40));
  const auto model = find(object, "model");
  check(model.has_value(), ErrorKind::invalid_model, "the file has no '{}'", "model");

  Parts parts;
  parts.normalizer = make_normalizer(copy_field(object, "normalizer"));
  const Json pre_tokenizer = copy_field(object, "pre_tokenizer");
  parts.pre_tokenizer = make_pre_tokenizer(pre_tokenizer);
  parts.model = read_model(*model, pre_tokenizer, parts.pre_tokenizer.get());
  parts.post_processor = make_post_processor(copy_field(object, "post_processor"));
  parts.decoder = make_decoder(copy_field(object, "decoder"));
  parts.truncation = read_truncation(copy_field(object, "truncation"));
  parts.padding = read_padding(copy_field(object, "padding"));
  parts.added_tokens.add(read_added_tokens(object), *parts.model, parts.normalizer.get());
  return parts;
}

}  // namespace lathe::tokenizer
