// SPDX-License-Identifier: MIT
#include "llm/tokenizer/sentence_piece_normalizer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "llm/tokenizer/rewriter.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

constexpr size_t kMaxMatches = 32;    // prefixes tried per offset
constexpr size_t kLongestKey = 1024;  // bytes; a damaged trie may have cycles

class SentencePieceNormalizer : public Normalizer {
 public:
  explicit SentencePieceNormalizer(const SentencePieceSpec& spec)
      : map_(spec.charsmap.empty() ? CharacterMap() : CharacterMap(spec.charsmap)),
        space_(spec.escape_whitespaces ? "\u2581" : " "),
        prefix_(spec.add_dummy_prefix && !spec.whitespace_as_suffix),
        suffix_(spec.add_dummy_prefix && spec.whitespace_as_suffix),
        squeezes_(spec.remove_extra_whitespaces) {
    for (size_t i = 0; i < spec.pieces.size(); ++i) {
      if (spec.pieces[i].type == SentencePiece::Type::user_defined) {
        symbols_.push_back(spec.pieces[i].text);
      }
    }
    std::vector<std::pair<std::string_view, uint32_t>> keys;
    for (const std::string& symbol : symbols_) keys.emplace_back(symbol, 0);
    user_defined_ = ByteTrie(std::move(keys));
  }

  void apply(AlignedText& text) const override {
    std::string out;
    std::vector<Step> steps;
    normalize(text.view(), out, text.has_map() ? &steps : nullptr);
    AlignedText::Rewriter rewriter(text);
    const size_t size = text.size();
    if (!text.has_map()) steps.push_back({out.size(), size});
    size_t written = 0;
    size_t read = 0;
    for (const Step& step : steps) {
      const size_t end = std::min(step.written, out.size());
      const std::string_view piece = std::string_view(out).substr(written, end - written);
      if (!piece.empty()) {
        if (read < size) {
          rewriter.write_next(piece);
        } else {
          rewriter.write_previous(piece);
        }
      }
      rewriter.skip(step.read - read);
      written = end;
      read = step.read;
    }
    rewriter.finish();
  }

 private:
  // Sizes of the output and the input read so far.
  struct Step {
    size_t written;
    size_t read;
  };

  // The replacement and length of the start of `text`, the unread input of `symbols`.
  std::pair<std::string_view, size_t> next(std::string_view text, const KeyFinder& symbols,
                                           size_t at) const {
    const size_t symbol = symbols.longest(at).first;
    if (symbol > 0) return {text.substr(0, symbol), symbol};
    const auto mapped = map_.longest(text);
    if (mapped.second > 0) return mapped;
    const size_t length = std::min(unicode::length(text[0]), text.size());
    return {text.substr(0, length), length};
  }

  void normalize(std::string_view text, std::string& out, std::vector<Step>* steps) const {
    const size_t size = text.size();
    const KeyFinder symbols(user_defined_, text);
    const auto step = [&] {
      if (steps != nullptr) steps->push_back({out.size(), size - text.size()});
    };
    while (squeezes_ && !text.empty()) {
      const auto [mapped, length] = next(text, symbols, size - text.size());
      if (mapped != " ") break;
      text.remove_prefix(length);
    }
    step();
    if (text.empty()) return;
    out.reserve(size + size / 2);
    if (prefix_) out += space_;
    bool after_space = squeezes_;
    while (!text.empty()) {
      auto [mapped, length] = next(text, symbols, size - text.size());
      while (after_space && mapped.starts_with(" ")) mapped.remove_prefix(1);
      if (!mapped.empty()) {
        for (const char c : mapped) {
          if (c == ' ') {
            out += space_;
          } else {
            out += c;
          }
        }
        after_space = squeezes_ && mapped.ends_with(" ");
      }
      text.remove_prefix(length);
      step();
    }
    while (squeezes_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
    if (!suffix_) return;
    // Removed output must not count twice.
    if (steps != nullptr) {
      for (Step& past : *steps) past.written = std::min(past.written, out.size());
    }
    out += space_;
    step();
  }

  CharacterMap map_;
  std::string_view space_;
  bool prefix_, suffix_, squeezes_;
  std::vector<std::string> symbols_;
  ByteTrie user_defined_;
};

}  // namespace

CharacterMap::CharacterMap(std::string_view blob) {
  uint32_t size = 0;
  check(blob.size() > sizeof size, ErrorKind::invalid_model,
        "precompiled_charsmap has {} bytes, expected more than {}", blob.size(), sizeof size);
  std::memcpy(&size, blob.data(), sizeof size);
  blob.remove_prefix(sizeof size);
  check(size >= 1024 && size % 1024 == 0 && size < blob.size(), ErrorKind::invalid_model,
        "precompiled_charsmap has a trie of {} bytes in {} bytes, expected a multiple of 1024",
        size, blob.size());
  units_.resize(size / 4);
  std::memcpy(units_.data(), blob.data(), size);
  texts_ = blob.substr(size);
  check(texts_.ends_with('\0'), ErrorKind::invalid_model,
        "precompiled_charsmap: the strings ({} bytes) do not end with a zero byte", texts_.size());
}

// A unit has a label, a flag for a value, and the offset of its children.
std::pair<std::string_view, size_t> CharacterMap::longest(std::string_view text) const {
  if (units_.empty()) return {{}, 0};
  const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  std::pair<std::string_view, size_t> found{{}, 0};
  size_t matches = 0;
  size_t node = offset(units_[0]);
  const size_t reach = std::min(text.size(), kLongestKey);
  for (size_t i = 0; i < reach; ++i) {
    const auto label = static_cast<uint8_t>(text[i]);
    node ^= label;
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if ((unit & ((1u << 31) | 0xFFu)) != label) break;
    node ^= offset(unit);
    if (node >= units_.size()) break;
    if ((unit >> 8 & 1u) == 0) continue;
    const uint32_t value = units_[node] & 0x7FFFFFFFu;
    if (value >= texts_.size()) return {{}, 0};
    found = {std::string_view(texts_.c_str() + value), i + 1};
    if (++matches == kMaxMatches) break;
  }
  return found;
}

std::unique_ptr<Normalizer> make_sentence_piece_normalizer(const SentencePieceSpec& spec) {
  return std::make_unique<SentencePieceNormalizer>(spec);
}

}  // namespace lathe::tokenizer
