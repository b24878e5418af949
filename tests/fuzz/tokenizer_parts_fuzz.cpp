// SPDX-License-Identifier: MIT
// A line of configuration and a text. The line is {"normalizer": …, "pre_tokenizer": …} or, if it
// is not JSON, a regular expression. Time and memory must be bounded.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "llm/tokenizer/normalizer.h"
#include "llm/tokenizer/pre_tokenizer.h"
#include "llm/tokenizer/regex.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

void check_pieces(const AlignedText& text, const Pieces& pieces, size_t original_size) {
  size_t end = 0;
  for (const Range piece : pieces) {
    require(piece.begin >= end && piece.begin < piece.end, "pieces out of order");
    end = piece.end;
    require(unicode::find_invalid_utf8(text.view(piece)) == std::string_view::npos,
            "half a character");
    if (text.has_map()) {
      const Range from = text.original(piece);
      require(from.begin <= original_size && from.end <= original_size, "a piece from nowhere");
    }
  }
  require(end <= text.size(), "a piece beyond the text");
}

void run(const nlohmann::json& config, std::string_view original) {
  const auto normalizer = make_normalizer(config.value("normalizer", nlohmann::json()));
  const auto pre_tokenizer = make_pre_tokenizer(config.value("pre_tokenizer", nlohmann::json()));
  std::string first;
  for (const bool keep_map : {true, false}) {
    AlignedText text(original, keep_map);
    if (normalizer != nullptr) normalizer->apply(text);
    require(unicode::find_invalid_utf8(text.view()) == std::string_view::npos, "not UTF-8");
    Pieces pieces;
    pre_tokenize(pre_tokenizer.get(), text, pieces);
    check_pieces(text, pieces, original.size());
    if (keep_map) first = text.view();
    const bool same = pre_tokenizer == nullptr || !pre_tokenizer->needs_map();
    if (!keep_map && same) require(first == text.view(), "other text without a map");
  }
}

void match(std::string_view pattern, std::string_view text) {
  const Regex regex(pattern);
  std::vector<Range> matches;
  regex.find_all(text, matches);
  size_t end = 0;
  for (const Range match : matches) {
    require(match.begin <= match.end && match.end <= text.size(), "a match beyond the text");
    require(match.end >= end, "matches out of order");
    end = match.end;
  }
}

}  // namespace
}  // namespace lathe::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  using namespace lathe::tokenizer;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(bytes.find('\n'), size);
  const std::string_view head = bytes.substr(0, line);
  std::string_view text = bytes.substr(std::min(line + 1, size));
  text = text.substr(0, unicode::find_invalid_utf8(text));
  try {
    const auto config = nlohmann::json::parse(head, nullptr, false);
    if (config.is_object())
      run(config, text);
    else
      match(head, text);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
  }
  return 0;
}
