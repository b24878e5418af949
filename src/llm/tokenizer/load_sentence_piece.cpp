// SPDX-License-Identifier: MIT
// Reads SentencePiece's .model files, which are protobuf messages.
#include <protozero/pbf_reader.hpp>

#include "base/error.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/sentence_piece.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

using protozero::pbf_reader;

// All integer fields are varints.
int64_t number(pbf_reader& reader, std::string_view what) {
  check(reader.wire_type() == protozero::pbf_wire_type::varint, ErrorKind::invalid_model,
        "{} has wire type {}, expected a number", what, static_cast<int>(reader.wire_type()));
  return static_cast<int64_t>(reader.get_uint64());
}
std::string_view bytes(pbf_reader& reader, std::string_view what) {
  check(reader.wire_type() == protozero::pbf_wire_type::length_delimited, ErrorKind::invalid_model,
        "{} has wire type {}, expected bytes", what, static_cast<int>(reader.wire_type()));
  const auto view = reader.get_view();
  return {view.data(), view.size()};
}

SentencePiece read_piece(std::string_view message) {
  SentencePiece piece;
  pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    if (reader.tag() == 1) {
      piece.text = bytes(reader, "a piece's text");
    } else if (reader.tag() == 2) {
      check(reader.wire_type() == protozero::pbf_wire_type::fixed32, ErrorKind::invalid_model,
            "the score of piece '{}' has wire type {}", escape(piece.text),
            static_cast<int>(reader.wire_type()));
      piece.score = reader.get_float();
    } else if (reader.tag() == 3) {
      const int64_t type = number(reader, "a piece's type");
      check(type >= 1 && type <= 6, ErrorKind::invalid_model,
            "piece '{}' has type {}, expected 1 to 6", escape(piece.text), type);
      piece.type = static_cast<SentencePiece::Type>(type);
    } else {
      reader.skip();
    }
  }
  return piece;
}

void read_trainer(std::string_view message, SentencePieceSpec& spec) {
  pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    switch (reader.tag()) {
      case 3: {
        const int64_t type = number(reader, "trainer_spec.model_type");
        check(type == 1 || type == 2, ErrorKind::unsupported,
              "trainer_spec.model_type is {}, expected 1 (unigram) or 2 (BPE)", type);
        spec.bpe = type == 2;
        break;
      }
      case 24:
        spec.whitespace_as_suffix = number(reader, "treat_whitespace_as_suffix") != 0;
        break;
      case 35:
        spec.byte_fallback = number(reader, "byte_fallback") != 0;
        break;
      case 44:
        spec.unk_surface = bytes(reader, "unk_surface");
        break;
      default:
        reader.skip();
    }
  }
}

void read_normalizer(std::string_view message, SentencePieceSpec& spec) {
  pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    switch (reader.tag()) {
      case 2:
        spec.charsmap = bytes(reader, "precompiled_charsmap");
        break;
      case 3:
        spec.add_dummy_prefix = number(reader, "add_dummy_prefix") != 0;
        break;
      case 4:
        spec.remove_extra_whitespaces = number(reader, "remove_extra_whitespaces") != 0;
        break;
      case 5:
        spec.escape_whitespaces = number(reader, "escape_whitespaces") != 0;
        break;
      default:
        reader.skip();
    }
  }
}

void check_denormalizer(std::string_view message) {
  SentencePieceSpec spec;
  read_normalizer(message, spec);
  check(spec.charsmap.empty(), ErrorKind::unsupported,
        "denormalizer_spec with a map of {} bytes is not supported", spec.charsmap.size());
}

}  // namespace

Parts read_sentence_piece(std::string_view file) {
  SentencePieceSpec spec;
  try {
    pbf_reader reader(file.data(), file.size());
    while (reader.next()) {
      switch (reader.tag()) {
        case 1:
          spec.pieces.push_back(read_piece(bytes(reader, "pieces")));
          break;
        case 2:
          read_trainer(bytes(reader, "trainer_spec"), spec);
          break;
        case 3:
          read_normalizer(bytes(reader, "normalizer_spec"), spec);
          break;
        case 5:
          check_denormalizer(bytes(reader, "denormalizer_spec"));
          break;
        default:
          reader.skip();
      }
    }
  } catch (const protozero::exception&) {
    fail(ErrorKind::invalid_model,
         "the file is not a valid SentencePiece model: it is cut off or damaged after {} pieces",
         spec.pieces.size());
  }
  check(!spec.pieces.empty(), ErrorKind::invalid_model,
        "the file is not a valid SentencePiece model: it has no pieces in {} bytes", file.size());
  std::map<std::string, std::string> names;
  for (const SentencePiece& piece : spec.pieces) {
    if (piece.type == SentencePiece::Type::unknown) names["unk_token"] = piece.text;
    if (piece.type != SentencePiece::Type::control) continue;
    if (piece.text == "<s>") names["bos_token"] = piece.text;
    if (piece.text == "</s>") names["eos_token"] = piece.text;
    if (piece.text == "<pad>") names["pad_token"] = piece.text;
  }
  Parts parts = make_sentence_piece(std::move(spec));
  parts.special_tokens = std::move(names);
  return parts;
}

}  // namespace lathe::tokenizer
