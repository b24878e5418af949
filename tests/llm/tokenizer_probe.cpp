// SPDX-License-Identifier: MIT
// Normalises and splits texts for tests in Python. A request is two frames on standard input:
// {"normalizer": …, "pre_tokenizer": …, "offsets": …, "leave_bytes": …} and a text. The answer is
// one frame: the normalised text, or "begin end text\n" for each piece (offsets in characters of
// the text), or "error: …". A frame is a length (4 bytes, little-endian) and bytes.
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "llm/tokenizer/normalizer.h"
#include "llm/tokenizer/pre_tokenizer.h"

namespace lathe::tokenizer {
namespace {

bool read_frame(std::string& frame) {
  uint32_t size = 0;
  if (std::fread(&size, sizeof size, 1, stdin) != 1) return false;
  frame.resize(size);
  return std::fread(frame.data(), 1, size, stdin) == size;
}

void write_frame(const std::string& frame) {
  const auto size = static_cast<uint32_t>(frame.size());
  std::fwrite(&size, sizeof size, 1, stdout);
  std::fwrite(frame.data(), 1, size, stdout);
  std::fflush(stdout);
}

struct Parts {
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  bool offsets = true;

  explicit Parts(const nlohmann::json& config) {
    const auto part = [&](const char* name) { return config.value(name, nlohmann::json()); };
    normalizer = make_normalizer(part("normalizer"));
    pre_tokenizer = make_pre_tokenizer(part("pre_tokenizer"));
    offsets = config.value("offsets", true);
    if (config.value("leave_bytes", false)) {
      check(pre_tokenizer->leave_bytes(), ErrorKind::invalid_argument, "no bytes to leave in {}",
            config.dump());
    }
  }
};

// For each byte, and the end, the number of characters before it.
std::vector<uint32_t> count_characters(std::string_view text) {
  std::vector<uint32_t> counts;
  uint32_t count = 0;
  for (const char c : text) {
    if ((static_cast<uint8_t>(c) & 0xC0) != 0x80) ++count;
    counts.push_back(count - 1);
  }
  counts.push_back(count);
  return counts;
}

// Texts and pieces must be equal without a map.
void check_without_map(const Parts& parts, const std::string& original, const AlignedText& expected,
                       const Pieces& expected_pieces) {
  if (parts.pre_tokenizer != nullptr && parts.pre_tokenizer->needs_map()) return;
  AlignedText text(original, false);
  if (parts.normalizer != nullptr) parts.normalizer->apply(text);
  Pieces pieces;
  pre_tokenize(parts.pre_tokenizer.get(), text, pieces);
  check(text.view() == expected.view() && pieces == expected_pieces, ErrorKind::internal,
        "without a map the text is '{}' of {} pieces", text.view(), pieces.size());
}

std::string run(const Parts& parts, const std::string& original) {
  AlignedText text(original, parts.offsets);
  if (parts.normalizer != nullptr) parts.normalizer->apply(text);
  if (parts.pre_tokenizer == nullptr && !parts.offsets) return std::string(text.view());
  Pieces pieces;
  pre_tokenize(parts.pre_tokenizer.get(), text, pieces);
  if (parts.offsets) check_without_map(parts, original, text, pieces);
  const std::vector<uint32_t> characters =
      parts.offsets ? count_characters(original) : std::vector<uint32_t>();
  std::string answer;
  for (const Range piece : pieces) {
    if (parts.offsets) {
      const Range from = text.original(piece);
      answer += fmt::format("{} {} ", characters[from.begin], characters[from.end]);
    }
    answer += text.view(piece);
    answer += '\n';
  }
  return answer;
}

void serve() {
  std::string config, known, text;
  std::optional<Parts> parts;
  while (read_frame(config) && read_frame(text)) {
    try {
      if (!parts || config != known) {
        parts.reset();
        parts.emplace(nlohmann::json::parse(config));
        known = config;
      }
      write_frame(run(*parts, text));
    } catch (const Error& error) {
      write_frame(std::string("error: ") + error.what());
    }
  }
}

}  // namespace
}  // namespace lathe::tokenizer

int main() { lathe::tokenizer::serve(); }
