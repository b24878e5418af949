// SPDX-License-Identifier: MIT
#include "llm/tokenizer/byte_level.h"

#include <array>

#include "llm/tokenizer/pre_tokenizer.h"
#include "llm/tokenizer/rewriter.h"

namespace lathe::tokenizer {
namespace {

// Printable characters of Latin-1 represent themselves; other bytes use U+0100 onwards.
bool is_own_character(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteCharacters {
  std::array<std::string, 256> text;
  std::array<int16_t, 512> byte_of;  // by character; -1: not in the alphabet

  ByteCharacters() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t character = is_own_character(byte) ? byte : next++;
      unicode::append(text[byte], character);
      byte_of[character] = static_cast<int16_t>(byte);
    }
  }
};

const ByteCharacters& table() {
  static const ByteCharacters table;
  return table;
}

}  // namespace

std::string_view byte_level_character(uint8_t byte) { return table().text[byte]; }

int byte_level_byte(char32_t character) {
  return character < 512 ? table().byte_of[character] : -1;
}

void write_bytes_as_characters(AlignedText& text, std::vector<Range>* pieces) {
  const ByteCharacters& characters = table();
  const std::string_view view = text.view();
  AlignedText::Rewriter rewriter(text);
  const auto write = [&](size_t end) {
    while (rewriter.position() < end) {
      const size_t length = unicode::length(view[rewriter.position()]);
      for (size_t i = 0; i < length; ++i) {
        const auto byte = static_cast<uint8_t>(view[rewriter.position() + i]);
        rewriter.write_next(characters.text[byte]);
      }
      rewriter.skip(length);
    }
  };
  if (pieces != nullptr) {
    for (Range& piece : *pieces) {
      rewriter.skip(piece.begin - rewriter.position());
      const auto begin = static_cast<uint32_t>(rewriter.size());
      write(piece.end);
      piece = {begin, static_cast<uint32_t>(rewriter.size())};
    }
  } else {
    write(view.size());
  }
  rewriter.finish();
}

}  // namespace lathe::tokenizer
