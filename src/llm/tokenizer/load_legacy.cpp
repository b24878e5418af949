// SPDX-License-Identifier: MIT
// Reads the formats before tokenizer.json: vocab.json with merges.txt, vocab.txt, and the files
// with special tokens. Tokenizer classes behave as in `transformers`.
#include <algorithm>

#include "base/json.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/json_fields.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/word_piece.h"

namespace lathe::tokenizer {
namespace {

constexpr int kMaxLevels = 48;
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kClipPattern = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

Json parse(std::string_view text, std::string_view where) {
  if (text.empty()) return Json::object();
  Json out = parse_json(text, where, 0, kMaxLevels);
  check(out.is_object(), ErrorKind::invalid_model, "{} is {}, expected an object", where,
        out.type_name());
  return out;
}

// A special token is a string, or an object with its content.
std::optional<std::string> special_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  return std::nullopt;
}

void read_names(const Json& object, TokenizerConfig& config) {
  for (const auto& [name, value] : object.items()) {
    if (!name.ends_with("_token")) continue;
    if (const auto text = special_text(value)) config.special_tokens[name] = *text;
  }
}

std::optional<bool> optional_flag(const Json& object, std::string_view name,
                                  std::string_view where) {
  const Json* field = find_field(object, name, where);
  if (field == nullptr) return std::nullopt;
  return to_flag(*field, json_path(where, name));
}

AddedToken read_added(const Json& token, const std::string& where) {
  const bool special = flag_field(token, "special", where, false);
  return {text_field(token, "content", where),
          flag_field(token, "single_word", where, false),
          flag_field(token, "lstrip", where, false),
          flag_field(token, "rstrip", where, false),
          flag_field(token, "normalized", where, !special),
          special};
}

void read_added_decoder(const Json& decoder, TokenizerConfig& config) {
  const std::string where = "tokenizer_config.json: added_tokens_decoder";
  check(decoder.is_object(), ErrorKind::invalid_model, "{} is {}, expected an object", where,
        decoder.type_name());
  std::map<uint64_t, AddedToken> by_id;
  for (const auto& [id, token] : decoder.items()) {
    const std::string place = json_path(where, id);
    const bool digits =
        !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
    check(digits, ErrorKind::invalid_model, "{} has the name '{}', expected a token id", where,
          escape(id));
    by_id[std::stoull(id)] = read_added(token, place);
  }
  for (auto& [id, token] : by_id) config.added_tokens.push_back(std::move(token));
}

std::string name_of(const TokenizerConfig& config, const std::string& key,
                    const std::string& otherwise) {
  const auto it = config.special_tokens.find(key);
  return it == config.special_tokens.end() ? otherwise : it->second;
}

// Adds the listed tokens, then the named special tokens.
void add_tokens(Parts& parts, const TokenizerConfig& config) {
  std::vector<AddedToken> tokens = config.added_tokens;
  for (const auto& [name, text] : config.special_tokens) {
    const bool known = std::any_of(tokens.begin(), tokens.end(),
                                   [&](const AddedToken& token) { return token.content == text; });
    if (!known) tokens.push_back({text, false, false, false, false, true});
  }
  parts.added_tokens.add(tokens, *parts.model, parts.normalizer.get());
  parts.special_tokens = config.special_tokens;
}

Json special_pair(const Parts& parts, const std::string& token) {
  const uint32_t id = parts.model->vocabulary().find(token);
  check(id != kNoId, ErrorKind::invalid_model, "the special token '{}' is not in the vocabulary",
        escape(token));
  return Json::array({token, id});
}

Vocabulary read_vocabulary(std::string_view text, Vocabulary::Form form) {
  const Json object = parse(text, "vocab.json");
  Vocabulary out(form);
  out.reserve(object.size(), text.size());
  for (const auto& [token, id] : object.items()) {
    out.add(token, to_id(id, "vocab.json"));
  }
  out.finish();
  return out;
}

MergeTable read_merges(std::string_view text, const Vocabulary& vocabulary) {
  MergeTable table;
  table.reserve(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')));
  MergeReader reader(vocabulary, 0);
  size_t rank = 0;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view merge = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (merge.ends_with('\r')) merge.remove_suffix(1);
    if (merge.empty() || merge.starts_with("#version")) continue;
    const size_t space = merge.find(' ');
    check(space != std::string_view::npos && merge.find(' ', space + 1) == std::string_view::npos,
          ErrorKind::invalid_model,
          "merges.txt, line {}: '{}', expected two tokens with one space between them", line,
          escape(merge, 80));
    reader.add(merge.substr(0, space), merge.substr(space + 1), rank++, table);
  }
  return table;
}

}  // namespace

TokenizerConfig read_tokenizer_config(std::string_view config_text,
                                      std::string_view special_tokens_map,
                                      std::string_view added_tokens) {
  TokenizerConfig out;
  const std::string_view where = "tokenizer_config.json";
  const Json config = parse(config_text, where);
  read_names(parse(special_tokens_map, "special_tokens_map.json"), out);
  read_names(config, out);
  if (const Json* decoder = find_field(config, "added_tokens_decoder", where)) {
    read_added_decoder(*decoder, out);
  } else {
    const Json added = parse(added_tokens, "added_tokens.json");
    std::map<uint64_t, std::string> by_id;
    for (const auto& [token, id] : added.items()) {
      by_id[to_id(id, json_path("added_tokens.json", token))] = token;
    }
    for (const auto& [id, token] : by_id) out.added_tokens.push_back({token});
  }
  out.tokenizer_class = optional_text(config, "tokenizer_class", where).value_or("");
  if (out.tokenizer_class.ends_with("Fast"))
    out.tokenizer_class.resize(out.tokenizer_class.size() - 4);
  out.add_bos_token = optional_flag(config, "add_bos_token", where);
  out.add_eos_token = optional_flag(config, "add_eos_token", where);
  out.add_prefix_space = optional_flag(config, "add_prefix_space", where);
  out.do_lower_case = optional_flag(config, "do_lower_case", where);
  out.strip_accents = optional_flag(config, "strip_accents", where);
  out.tokenize_chinese_chars = optional_flag(config, "tokenize_chinese_chars", where);
  return out;
}

Parts read_vocab_and_merges(std::string_view vocab, std::string_view merges,
                            const TokenizerConfig& config) {
  const std::string& kind = config.tokenizer_class;
  const bool clip = kind == "CLIPTokenizer";
  const bool qwen = kind == "Qwen2Tokenizer";
  const bool roberta = kind == "RobertaTokenizer" || kind == "LongformerTokenizer" ||
                       kind == "BartTokenizer" || kind == "LEDTokenizer";
  Parts parts;
  Json steps = Json::array();
  if (clip || qwen) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", clip ? kClipPattern : kQwen2Pattern}}},
                     {"behavior", clip ? "Removed" : "Isolated"},
                     {"invert", clip}});
  }
  const bool prefix_space = config.add_prefix_space.value_or(false) && !clip;
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", prefix_space},
                   {"trim_offsets", true},
                   {"use_regex", !qwen}});
  parts.pre_tokenizer = make_pre_tokenizer({{"type", "Sequence"}, {"pretokenizers", steps}});
  if (qwen) parts.normalizer = make_normalizer(Json{{"type", "NFC"}});
  if (clip) {
    parts.normalizer = make_normalizer(Json{
        {"type", "Sequence"},
        {"normalizers",
         Json::array({{{"type", "NFC"}},
                      {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}},
                      {{"type", "Lowercase"}}})}});
  }
  BpeOptions options;
  if (clip) {
    options.end_of_word_suffix = "</w>";
    options.unk_token = name_of(config, "unk_token", "<|endoftext|>");
  }
  Vocabulary tokens = read_vocabulary(vocab, Vocabulary::Form::bytes);
  if (!Bpe::covers_bytes(tokens, options) || !parts.pre_tokenizer->leave_bytes()) {
    tokens = read_vocabulary(vocab, Vocabulary::Form::text);
  }
  MergeTable table = read_merges(merges, tokens);
  parts.model = std::make_unique<Bpe>(std::move(tokens), std::move(table), std::move(options));
  parts.decoder = make_decoder(Json{{"type", "ByteLevel"}});
  if (clip || roberta) {
    const std::string first =
        name_of(config, clip ? "bos_token" : "cls_token", clip ? "<|startoftext|>" : "<s>");
    const std::string last =
        name_of(config, clip ? "eos_token" : "sep_token", clip ? "<|endoftext|>" : "</s>");
    parts.post_processor = make_post_processor(Json{{"type", "RobertaProcessing"},
                                                    {"cls", special_pair(parts, first)},
                                                    {"sep", special_pair(parts, last)},
                                                    {"trim_offsets", !clip},
                                                    {"add_prefix_space", prefix_space}});
  } else if (config.add_bos_token.value_or(false)) {
    const std::string bos = name_of(config, "bos_token", "<|endoftext|>");
    parts.post_processor = make_surround({{parts.model->vocabulary().find(bos), bos}}, {});
  } else {
    parts.post_processor = make_post_processor(Json{{"type", "ByteLevel"},
                                                    {"add_prefix_space", prefix_space},
                                                    {"trim_offsets", false},
                                                    {"use_regex", true}});
  }
  add_tokens(parts, config);
  return parts;
}

Parts read_vocab_text(std::string_view vocab, const TokenizerConfig& given) {
  TokenizerConfig config = given;
  for (const auto& [key, text] : {std::pair{"unk_token", "[UNK]"},
                                  {"sep_token", "[SEP]"},
                                  {"pad_token", "[PAD]"},
                                  {"cls_token", "[CLS]"},
                                  {"mask_token", "[MASK]"}}) {
    config.special_tokens.emplace(key, text);
  }
  Vocabulary tokens;
  tokens.reserve(static_cast<size_t>(std::count(vocab.begin(), vocab.end(), '\n')) + 1,
                 vocab.size());
  for (uint32_t id = 0; !vocab.empty(); ++id) {
    const size_t end = std::min(vocab.find('\n'), vocab.size());
    std::string_view token = vocab.substr(0, end);
    vocab.remove_prefix(std::min(end + 1, vocab.size()));
    if (token.ends_with('\r')) token.remove_suffix(1);
    tokens.add(token, id);
  }
  Parts parts;
  const auto nullable = [](std::optional<bool> flag) { return flag ? Json(*flag) : Json(); };
  parts.normalizer =
      make_normalizer(Json{{"type", "BertNormalizer"},
                           {"clean_text", true},
                           {"handle_chinese_chars", config.tokenize_chinese_chars.value_or(true)},
                           {"strip_accents", nullable(config.strip_accents)},
                           {"lowercase", config.do_lower_case.value_or(true)}});
  parts.pre_tokenizer = make_pre_tokenizer(Json{{"type", "BertPreTokenizer"}});
  parts.model =
      std::make_unique<WordPiece>(std::move(tokens), config.special_tokens["unk_token"], "##", 100);
  parts.decoder = make_decoder(Json{{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}});
  const uint32_t cls = parts.model->vocabulary().find(config.special_tokens["cls_token"]);
  const uint32_t sep = parts.model->vocabulary().find(config.special_tokens["sep_token"]);
  if (cls != kNoId && sep != kNoId) {
    parts.post_processor =
        make_post_processor(Json{{"type", "BertProcessing"},
                                 {"cls", special_pair(parts, config.special_tokens["cls_token"])},
                                 {"sep", special_pair(parts, config.special_tokens["sep_token"])}});
  }
  std::erase_if(config.special_tokens, [&](const auto& entry) {
    return !given.special_tokens.contains(entry.first) &&
           parts.model->vocabulary().find(entry.second) == kNoId;
  });
  add_tokens(parts, config);
  return parts;
}

}  // namespace lathe::tokenizer
