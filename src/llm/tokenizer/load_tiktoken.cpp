// SPDX-License-Identifier: MIT
// Reads tiktoken's ranks: per line a token's bytes in base64 and its rank.
#include <nlohmann/json.hpp>

#include <array>
#include <charconv>

#include "base/error.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/load.h"

namespace lathe::tokenizer {
namespace {

using Json = nlohmann::json;
using Specials = std::vector<std::pair<std::string, uint32_t>>;

// A named encoding of tiktoken. \z matches the end of the text.
struct KnownEncoding {
  std::string_view name;
  size_t ranks;
  std::string_view pattern;
  Specials specials;
};

constexpr std::string_view kR50kPattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++\z|\s+(?!\S)|\s)";
constexpr std::string_view kCl100kPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|)"
    R"(\s++\z|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";

const std::vector<KnownEncoding>& known_encodings() {
  static const std::vector<KnownEncoding> encodings{
      {"r50k_base", 50256, kR50kPattern, {{"<|endoftext|>", 50256}}},
      {"gpt2", 50256, kR50kPattern, {{"<|endoftext|>", 50256}}},
      {"p50k_base", 50280, kR50kPattern, {{"<|endoftext|>", 50256}}},
      {"cl100k_base",
       100256,
       kCl100kPattern,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {"o200k_base",
       199998,
       kO200kPattern,
       {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}}};
  return encodings;
}

// Finds an encoding by the file's name, else by the number of ranks.
const KnownEncoding* find_encoding(const std::string& name, size_t ranks) {
  for (const KnownEncoding& encoding : known_encodings()) {
    if (name.find(encoding.name) != std::string::npos && encoding.ranks == ranks) return &encoding;
  }
  for (const KnownEncoding& encoding : known_encodings()) {
    if (encoding.ranks == ranks) return &encoding;
  }
  return nullptr;
}

bool decode_base64(std::string_view text, std::string& bytes) {
  static const std::array<int8_t, 256> values = [] {
    std::array<int8_t, 256> out{};
    out.fill(-1);
    constexpr std::string_view alphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < alphabet.size(); ++i) {
      out[static_cast<uint8_t>(alphabet[i])] = static_cast<int8_t>(i);
    }
    return out;
  }();
  bytes.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t group = 0;
    const size_t digits = i + 4 == text.size() ? 4 - padding : 4;
    for (size_t k = 0; k < 4; ++k) {
      const int8_t value = k < digits ? values[static_cast<uint8_t>(text[i + k])] : int8_t{0};
      if (value < 0) return false;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    for (size_t k = 0; k + 1 < digits; ++k) {
      bytes += static_cast<char>(group >> (16 - 8 * k) & 0xFF);
    }
  }
  return true;
}

// In tiktoken's patterns $ is the end of the text and {m,n}+ is possessive. In tokenizer.json's
// syntax $ is the end of a line and {m,n}+ is a repetition.
std::string translate(std::string_view pattern) {
  std::string out;
  int classes = 0;
  bool counted = false;  // out ends with {m,n}
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      out += pattern.substr(i++, 2);
      counted = false;
      continue;
    }
    if (c == '[') ++classes;
    if (c == ']' && classes > 0) --classes;
    if (classes == 0 && c == '$') {
      out += "\\z";
    } else if (classes > 0 || c != '+' || !counted) {
      out += c;
    }
    const size_t open = out.rfind('{');
    counted = classes == 0 && c == '}' && open != std::string::npos && open + 1 < out.size() &&
              out[open + 1] >= '0' && out[open + 1] <= '9';
  }
  return out;
}

Vocabulary read_ranks(std::string_view file) {
  Vocabulary ranks(Vocabulary::Form::bytes);
  ranks.reserve(file.size() / 16, file.size() / 2);
  std::string bytes;
  size_t number = 0;
  while (!file.empty()) {
    const size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    ++number;
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view rank = line.substr(std::min(space + 1, line.size()));
    uint32_t id = kNoId;
    const auto [last, error] = std::from_chars(rank.data(), rank.data() + rank.size(), id);
    check(error == std::errc() && last == rank.data() + rank.size() && id <= kMaxId &&
              decode_base64(line.substr(0, space), bytes),
          ErrorKind::invalid_model,
          "line {} is '{}', expected the bytes of a token in base64, a space and its rank", number,
          escape(line, 80));
    ranks.add_bytes(bytes, id);
  }
  check(ranks.size() > 0, ErrorKind::invalid_model, "the file has no ranks in {} lines", number);
  return ranks;
}

}  // namespace

Parts read_tiktoken(std::string_view file, const std::string& name, const LoadOptions& options) {
  Vocabulary ranks = read_ranks(file);
  const KnownEncoding* known = find_encoding(name, ranks.size());
  check(known != nullptr || !options.pattern.empty(), ErrorKind::invalid_argument,
        "the encoding with {} ranks is unknown, expected one of {}: use option 'pattern'",
        ranks.size(), "r50k_base, p50k_base, cl100k_base, o200k_base");
  BpeOptions bpe;
  bpe.ranks_are_ids = true;
  bpe.ignore_merges = true;
  check(Bpe::covers_bytes(ranks, bpe), ErrorKind::invalid_model,
        "the {} ranks do not have all single bytes", ranks.size());

  const std::string pattern =
      options.pattern.empty() ? std::string(known->pattern) : translate(options.pattern);
  // Drops the text between matches.
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Removed"},
                      {"invert", true}};
  Parts parts;
  parts.pre_tokenizer = make_pre_tokenizer(split, "pattern");
  parts.model = std::make_unique<Bpe>(std::move(ranks), MergeTable(), std::move(bpe));
  parts.decoder = make_decoder(Json{{"type", "ByteLevel"}});
  if (known == nullptr) return parts;
  std::vector<AddedToken> specials;
  Vocabulary ids;
  for (const auto& [token, id] : known->specials) {
    specials.push_back({token, false, false, false, false, true});
    ids.add(token, id);
  }
  parts.added_tokens.add_with_ids(specials, ids);
  parts.special_tokens["eos_token"] = "<|endoftext|>";
  return parts;
}

}  // namespace lathe::tokenizer
