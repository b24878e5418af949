// SPDX-License-Identifier: MIT
// Edits that depend on single characters.
#pragma once

#include <array>
#include <cstdint>

#include "llm/tokenizer/rewriter.h"

namespace lathe::tokenizer {

// The ASCII characters that change, computed once per normaliser.
using AsciiTable = std::array<bool, 128>;

template <class F>
AsciiTable make_ascii_table(F&& changes) {
  AsciiTable table;
  for (size_t c = 0; c < table.size(); ++c) table[c] = changes(static_cast<char32_t>(c));
  return table;
}

// Calls edit(rewriter, character) at each character for which changes(character) is true; edit must
// skip or keep the character. Keeps all others. Copies nothing if nothing changes.
template <class Changes, class Edit>
void edit_characters(AlignedText& text, const AsciiTable& ascii, Changes&& changes, Edit&& edit) {
  const std::string_view view = text.view();
  size_t at = 0;
  char32_t character = 0;
  const auto find = [&] {  // moves to the next character that changes
    while (at < view.size()) {
      const auto byte = static_cast<uint8_t>(view[at]);
      if (byte < 0x80) {
        character = byte;
        if (ascii[byte]) return true;
        ++at;
      } else {
        size_t next = at;
        character = unicode::next(view, next);
        if (changes(character)) return true;
        at = next;
      }
    }
    return false;
  };
  if (!find()) return;
  AlignedText::Rewriter rewriter(text);
  do {
    rewriter.keep(at - rewriter.position());
    at += unicode::length(view[at]);
    edit(rewriter, character);
  } while (find());
  rewriter.keep(view.size() - rewriter.position());
  rewriter.finish();
}

}  // namespace lathe::tokenizer
