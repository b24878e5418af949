// SPDX-License-Identifier: MIT
// Reads the vocabulary of a GGUF file (tokenizer.ggml.*).
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "import/checkpoint/files/gguf.h"
#include "import/checkpoint/files/gguf_split.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/sentence_piece.h"
#include "llm/tokenizer/word_piece.h"

namespace lathe::tokenizer {
namespace {

using Json = nlohmann::json;
using Type = SentencePiece::Type;

constexpr std::string_view kSpace = "\u2581";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens";

// Patterns of GPT-2 and those that followed it.
constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Patterns of single kinds of characters.
constexpr const char* kDigit = R"(\p{N})";
constexpr const char* kDigits = R"(\p{N}+)";
constexpr const char* kThreeDigits = R"(\p{N}{1,3})";
constexpr const char* kNewline = R"([\r\n])";
constexpr const char* kHan = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr const char* kCjk = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
// Letters with a case, as in the file of DeepSeek LLM.
constexpr const char* kCased =
    "\\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd"
    "\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b"
    "\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
    "\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
    "]+";
constexpr const char* kWidePunctuation =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";
constexpr const char* kViking = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";

// Each pattern splits the parts that those before it leave or match.
constexpr const char* kGpt2Splits[] = {kGpt2};
constexpr const char* kDigitSplits[] = {kDigit, kGpt2};
constexpr const char* kLlama3Splits[] = {kLlama3};
constexpr const char* kQwen2Splits[] = {kQwen2};
constexpr const char* kSeedCoderSplits[] = {kSeedCoder};
constexpr const char* kO200kSplits[] = {kO200k};
constexpr const char* kTekkenSplits[] = {kTekken};
constexpr const char* kQwen35Splits[] = {kQwen35};
constexpr const char* kDeepSeekV3Splits[] = {kThreeDigits, kHan, kDeepSeekV3};
constexpr const char* kDeepSeekLlmSplits[] = {kNewline,  kCased, kWidePunctuation,
                                              R"(\s+$)", kCjk,   kDigit};
constexpr const char* kDeepSeekCoderSplits[] = {kNewline, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk,
                                                kDigit};
constexpr const char* kVikingSplits[] = {kViking, kDigit};
// llama.cpp's, for files that name none of a model.
constexpr const char* kDefaultSplits[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, kDigits,
                                          "[0-9][0-9][0-9]"};

// The pre-tokenizers named by tokenizer.ggml.pre.
struct PreTokenization {
  std::string_view name;
  std::span<const char* const> splits;
  bool ignore_merges = false;
  bool nfc = false;
  bool bos = false;  // texts begin with that token, unless the file states otherwise
};
constexpr PreTokenization kPreTokenizations[] = {
    {"default", kDefaultSplits},
    {"gpt-2", kGpt2Splits},
    {"phi-2", kGpt2Splits},
    {"mpt", kGpt2Splits},
    {"olmo", kGpt2Splits},
    {"jina-es", kGpt2Splits},
    {"jina-de", kGpt2Splits},
    {"roberta-bpe", kGpt2Splits},
    {"a.x-4.0", kGpt2Splits},
    {"mellum", kGpt2Splits},
    {"trillion", kGpt2Splits},
    {"granite-docling", kGpt2Splits},
    {"smollm", kDigitSplits},
    {"starcoder", kDigitSplits},
    {"refact", kDigitSplits},
    {"command-r", kDigitSplits},
    {"codeshell", kDigitSplits},
    {"minerva-7b", kDigitSplits},
    {"llama-bpe", kLlama3Splits, true, false, true},
    {"llama3", kLlama3Splits, true, false, true},
    {"llama-v3", kLlama3Splits, true, false, true},
    {"falcon3", kLlama3Splits, true, false, true},
    {"pixtral", kLlama3Splits, true, false, true},
    {"midm-2.0", kLlama3Splits, true, false, true},
    {"lfm2", kLlama3Splits, true, false, true},
    {"glm4", kLlama3Splits},
    {"chatglm-bpe", kLlama3Splits},
    {"dbrx", kLlama3Splits},
    {"smaug-bpe", kLlama3Splits},
    {"qwen2", kQwen2Splits, false, true},
    {"deepseek-r1-qwen", kQwen2Splits, false, true},
    {"megrez", kQwen2Splits, false, true},
    {"stablelm2", kQwen2Splits, false, true},
    {"qwen35", kQwen35Splits, false, true},
    {"seed-coder", kSeedCoderSplits},
    {"gpt-4o", kO200kSplits},
    {"tekken", kTekkenSplits, true, false, true},
    {"deepseek-llm", kDeepSeekLlmSplits},
    {"deepseek-coder", kDeepSeekCoderSplits},
    {"deepseek-v3", kDeepSeekV3Splits},
    {"hunyuan-dense", kDeepSeekV3Splits},
    {"viking", kVikingSplits},
};

class GgufVocabulary {
 public:
  GgufVocabulary(std::string_view bytes, const std::string& path)
      : header_(bytes),
        tokens_(header_.texts(kTokens)),
        types_(header_.numbers("tokenizer.ggml.token_type")),
        scores_(header_.numbers("tokenizer.ggml.scores")) {
    if (tokens_.empty()) checkpoint::check_first_part(header_, path);
    check(!tokens_.empty(), ErrorKind::invalid_model, "the file has no {}", kTokens);
    for (const auto& [list, name] : {std::pair{&types_, "token_type"}, {&scores_, "scores"}}) {
      check(list->empty() || list->size() == tokens_.size(), ErrorKind::invalid_model,
            "tokenizer.ggml.{} has {} entries for {} tokens", name, list->size(), tokens_.size());
    }
  }

  Parts read() const {
    const std::string model(header_.text("tokenizer.ggml.model").value_or(""));
    Parts parts;
    bool adds_bos = model == "llama" || model == "gemma4";
    if (model == "gpt2") {
      const PreTokenization& form = pre_tokenization();
      adds_bos = form.bos;
      parts = read_bpe(form);
    } else if (model == "llama" || model == "t5") {
      parts = read_pieces(model == "llama");
    } else if (model == "gemma4") {
      parts = read_characters();
    } else if (model == "bert") {
      parts = read_bert();
    } else {
      fail(ErrorKind::unsupported,
           "tokenizer.ggml.model is '{}', expected gpt2, llama, t5, gemma4 or bert", escape(model));
    }
    if (!parts.post_processor) {
      parts.post_processor = make_surround(special("bos", "add_bos_token", adds_bos),
                                           special("eos", "add_eos_token", model == "t5"));
    }
    for (const auto& [key, name] : {std::pair{"bos", "bos_token"},
                                    {"eos", "eos_token"},
                                    {"unknown", "unk_token"},
                                    {"padding", "pad_token"}}) {
      if (const auto id = named(key)) parts.special_tokens[name] = tokens_[*id];
    }
    return parts;
  }

 private:
  Type type(size_t id) const {
    const double value = types_.empty() ? 1 : types_[id];
    return value >= 1 && value <= 6 ? static_cast<Type>(static_cast<int>(value)) : Type::normal;
  }
  std::optional<uint32_t> named(std::string_view name) const {
    const auto id = header_.integer(fmt::format("tokenizer.ggml.{}_token_id", name));
    return id && *id < tokens_.size() ? std::optional(static_cast<uint32_t>(*id)) : std::nullopt;
  }
  std::vector<std::pair<uint32_t, std::string>> special(std::string_view name, std::string_view key,
                                                        bool otherwise) const {
    const auto id = named(name);
    if (!id || !header_.flag(fmt::format("tokenizer.ggml.{}", key)).value_or(otherwise)) return {};
    return {{*id, std::string(tokens_[*id])}};
  }
  // Control and user-defined tokens are added tokens.
  void add_tokens(Parts& parts) const {
    std::vector<AddedToken> added;
    Vocabulary ids;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (type(i) != Type::control && type(i) != Type::user_defined) continue;
      added.push_back(
          {std::string(tokens_[i]), false, false, false, false, type(i) == Type::control});
      ids.add(tokens_[i], static_cast<uint32_t>(i));
    }
    parts.added_tokens.add_with_ids(added, ids);
  }
  Vocabulary vocabulary(Vocabulary::Form form) const {
    Vocabulary out(form);
    out.reserve(tokens_.size(), tokens_.size() * 8);
    for (size_t i = 0; i < tokens_.size(); ++i) out.add(tokens_[i], static_cast<uint32_t>(i));
    out.finish();
    return out;
  }

  MergeTable merges_of(const Vocabulary& tokens) const;
  const PreTokenization& pre_tokenization() const;
  Parts read_bpe(const PreTokenization& form) const;
  Parts read_characters() const;
  Parts read_pieces(bool bpe) const;
  Parts read_bert() const;

  checkpoint::GgufFile header_;
  std::vector<std::string_view> tokens_;
  std::vector<double> types_, scores_;
};

MergeTable GgufVocabulary::merges_of(const Vocabulary& tokens) const {
  const std::vector<std::string_view> list = header_.texts("tokenizer.ggml.merges");
  MergeTable merges;
  merges.reserve(list.size());
  MergeReader reader(tokens, 0);
  for (size_t i = 0; i < list.size(); ++i) {
    const size_t space = list[i].find(' ', 1);
    check(space != std::string_view::npos, ErrorKind::invalid_model,
          "tokenizer.ggml.merges[{}] is '{}', expected two tokens with a space between them", i,
          escape(list[i]));
    reader.add(list[i].substr(0, space), list[i].substr(space + 1), i, merges);
  }
  return merges;
}

const PreTokenization& GgufVocabulary::pre_tokenization() const {
  const std::string pre(header_.text("tokenizer.ggml.pre").value_or("gpt-2"));
  const PreTokenization* known = nullptr;
  std::vector<std::string_view> names;
  for (const PreTokenization& one : kPreTokenizations) {
    names.push_back(one.name);
    if (one.name == pre) known = &one;
  }
  check(known != nullptr, ErrorKind::unsupported, "tokenizer.ggml.pre is '{}', expected one of {}",
        escape(pre), fmt::join(names, ", "));
  return *known;
}

Parts GgufVocabulary::read_bpe(const PreTokenization& form) const {
  Json steps = Json::array();
  std::span splits = form.splits;
  const bool gpt2 = splits.back() == kGpt2;  // a part of ByteLevel
  if (gpt2) splits = splits.first(splits.size() - 1);
  for (const char* pattern : splits) {
    steps.push_back(pattern == kDigit ? Json{{"type", "Digits"}, {"individual_digits", true}}
                                      : Json{{"type", "Split"},
                                             {"pattern", {{"Regex", pattern}}},
                                             {"behavior", "Isolated"},
                                             {"invert", false}});
  }
  steps.push_back(
      {{"type", "ByteLevel"},
       {"add_prefix_space", header_.flag("tokenizer.ggml.add_space_prefix").value_or(false)},
       {"trim_offsets", true},
       {"use_regex", gpt2}});
  Parts parts;
  if (form.nfc) parts.normalizer = make_normalizer(Json{{"type", "NFC"}});
  parts.pre_tokenizer = make_pre_tokenizer({{"type", "Sequence"}, {"pretokenizers", steps}});
  BpeOptions options;
  options.ignore_merges = form.ignore_merges;
  Vocabulary tokens = vocabulary(Vocabulary::Form::bytes);
  if (!Bpe::covers_bytes(tokens, options) || !parts.pre_tokenizer->leave_bytes()) {
    tokens = vocabulary(Vocabulary::Form::text);
  }
  MergeTable merges = merges_of(tokens);
  parts.model = std::make_unique<Bpe>(std::move(tokens), std::move(merges), std::move(options));
  parts.decoder = make_decoder(Json{{"type", "ByteLevel"}});
  add_tokens(parts);
  return parts;
}

// Gemma 4: merges of characters, ▁ for spaces, unknown characters as bytes; newlines stand apart.
Parts GgufVocabulary::read_characters() const {
  Parts parts;
  parts.normalizer = make_normalizer(
      Json{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
  parts.pre_tokenizer = make_pre_tokenizer(Json{{"type", "Split"},
                                                {"pattern", {{"Regex", "\\n+"}}},
                                                {"behavior", "Isolated"},
                                                {"invert", false}});
  BpeOptions options;
  options.byte_fallback = true;
  options.fuse_unk = true;
  if (const auto unknown = named("unknown")) options.unk_token = tokens_[*unknown];
  Vocabulary tokens = vocabulary(Vocabulary::Form::text);
  MergeTable merges = merges_of(tokens);
  parts.model = std::make_unique<Bpe>(std::move(tokens), std::move(merges), std::move(options));
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}};
  parts.decoder = make_decoder(
      Json{{"type", "Sequence"},
           {"decoders", {replace, Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}}}});
  add_tokens(parts);
  return parts;
}

Parts GgufVocabulary::read_pieces(bool bpe) const {
  SentencePieceSpec spec;
  spec.bpe = bpe;
  spec.add_dummy_prefix = header_.flag("tokenizer.ggml.add_space_prefix").value_or(true);
  spec.remove_extra_whitespaces =
      header_.flag("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  spec.charsmap = header_.bytes("tokenizer.ggml.precompiled_charsmap");
  const uint32_t unknown = named("unknown").value_or(0);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    SentencePiece piece;
    piece.text = tokens_[i];
    piece.score = scores_.empty() ? 0 : static_cast<float>(scores_[i]);
    piece.type = type(i);
    // The file names one unknown token; others of that type never occur in a text.
    if (piece.type == Type::unknown) piece.type = Type::control;
    if (i == unknown) piece.type = Type::unknown;
    if (piece.type == Type::byte) spec.byte_fallback = true;
    // User-defined tokens are found as added tokens, except spaces.
    if (piece.type == Type::user_defined && piece.text.find(kSpace) == std::string::npos) {
      piece.type = Type::control;
    }
    spec.pieces.push_back(std::move(piece));
  }
  Parts parts = make_sentence_piece(std::move(spec));
  add_tokens(parts);
  return parts;
}

// GGUF marks the beginning of a word with ▁; BERT's files mark its continuation with ##.
Parts GgufVocabulary::read_bert() const {
  Vocabulary words;
  words.reserve(tokens_.size(), tokens_.size() * 10);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view token = tokens_[i];
    const auto id = static_cast<uint32_t>(i);
    if (type(i) == Type::control || type(i) == Type::unknown) {
      words.add(token, id);
    } else if (token.starts_with(kSpace)) {
      words.add(token.substr(kSpace.size()), id);
    } else {
      words.add(fmt::format("##{}", token), id);
    }
  }
  const std::string unknown(tokens_[named("unknown").value_or(0)]);
  Parts parts;
  parts.normalizer = make_normalizer(Json{{"type", "BertNormalizer"},
                                          {"clean_text", true},
                                          {"handle_chinese_chars", true},
                                          {"strip_accents", nullptr},
                                          {"lowercase", true}});
  parts.pre_tokenizer = make_pre_tokenizer(Json{{"type", "BertPreTokenizer"}});
  parts.model = std::make_unique<WordPiece>(std::move(words), unknown, "##", 100);
  parts.decoder = make_decoder(Json{{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}});
  const auto cls = named("cls") ? named("cls") : named("bos");
  const auto sep = named("seperator") ? named("seperator") : named("eos");
  if (cls && sep) {
    parts.post_processor =
        make_post_processor(Json{{"type", "BertProcessing"},
                                 {"cls", Json::array({std::string(tokens_[*cls]), *cls})},
                                 {"sep", Json::array({std::string(tokens_[*sep]), *sep})}});
  }
  add_tokens(parts);
  return parts;
}

}  // namespace

Parts read_gguf(std::string_view bytes, const std::string& path) {
  return GgufVocabulary(bytes, path).read();
}

bool has_vocabulary(std::string_view gguf) { return checkpoint::GgufFile(gguf).has(kTokens); }

}  // namespace lathe::tokenizer
