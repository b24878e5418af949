// SPDX-License-Identifier: MIT
// SentencePiece's normaliser: maps characters and writes white space as ▁.
#pragma once

#include <memory>

#include "llm/tokenizer/sentence_piece.h"

namespace lathe::tokenizer {

std::unique_ptr<Normalizer> make_sentence_piece_normalizer(const SentencePieceSpec& spec);

}  // namespace lathe::tokenizer
