// SPDX-License-Identifier: MIT
#include "llm/tokenizer/sentence_piece.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "llm/tokenizer/sentence_piece_normalizer.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

using Type = SentencePiece::Type;
constexpr std::string_view kSpace = "\u2581";
constexpr size_t kMaxPieceBytes = 8000;
constexpr float kUnkPenalty = 10.0F;
constexpr int kMaxResegmentDepth = 100;
constexpr uint32_t kNowhere = 0xFFFFFFFF;

// The common part of unigram and BPE.
class PieceModel : public Model {
 public:
  explicit PieceModel(const SentencePieceSpec& spec)
      : Model(vocabulary_of(spec)), byte_fallback_(spec.byte_fallback) {
    bytes_.assign(256, kNoId);
    for (size_t i = 0; i < spec.pieces.size(); ++i) {
      const SentencePiece& piece = spec.pieces[i];
      types_.push_back(piece.type);
      scores_.push_back(piece.score);
      if (piece.type == Type::unknown) unk_id_ = static_cast<uint32_t>(i);
    }
    for (int i = 0; i < 256 && byte_fallback_; ++i) {
      const std::string name = byte_token(static_cast<uint8_t>(i));
      bytes_[i] = vocabulary_.find(name);
      check(bytes_[i] != kNoId && types_[bytes_[i]] == Type::byte, ErrorKind::invalid_model,
            "the model has byte_fallback, but not the byte piece '{}'", name);
    }
    check(unk_id_ != kNoId || byte_fallback_, ErrorKind::invalid_model,
          "none of the {} pieces has the type {}", spec.pieces.size(), "UNKNOWN");
  }

 protected:
  // Encodes a run of unknown pieces as one token or as bytes.
  struct Emitter {
    Tokens& tokens;
    uint32_t piece;
    uint32_t at = 0;
    bool after_unknown = false;
  };
  void emit(std::string_view text, uint32_t id, Emitter& to) const {
    const Range range{to.at, to.at + static_cast<uint32_t>(text.size())};
    to.at = range.end;
    const bool unknown = id == unk_id_ || id == kNoId;
    if (unknown && byte_fallback_) {
      for (const char byte : text) {
        to.tokens.add(bytes_[static_cast<uint8_t>(byte)], range, to.piece);
      }
    } else if (unknown && to.after_unknown) {
      if (to.tokens.detailed) to.tokens.ranges.back().end = range.end;
    } else {
      to.tokens.add(id, range, to.piece, unknown);
    }
    to.after_unknown = unknown;
  }
  bool is_reserved(uint32_t id) const {
    return types_[id] == Type::unknown || types_[id] == Type::control || types_[id] == Type::byte;
  }

  std::vector<Type> types_;
  std::vector<float> scores_;
  std::vector<uint32_t> bytes_;
  uint32_t unk_id_ = kNoId;
  bool byte_fallback_;

 private:
  static Vocabulary vocabulary_of(const SentencePieceSpec& spec) {
    Vocabulary vocabulary;
    size_t bytes = 0;
    for (const SentencePiece& piece : spec.pieces) bytes += piece.text.size();
    vocabulary.reserve(spec.pieces.size(), bytes);
    size_t unknown = 0;
    for (size_t i = 0; i < spec.pieces.size(); ++i) {
      const SentencePiece& piece = spec.pieces[i];
      check(!piece.text.empty() && piece.text.size() < kMaxPieceBytes, ErrorKind::invalid_model,
            "piece {} has {} bytes, expected 1 to {}", i, piece.text.size(), kMaxPieceBytes - 1);
      check(unicode::find_invalid_utf8(piece.text) == std::string_view::npos,
            ErrorKind::invalid_model, "piece {} is '{}', which is not UTF-8", i,
            escape(piece.text));
      check(std::isfinite(piece.score), ErrorKind::invalid_model,
            "piece {} ('{}') has the score {}", i, escape(piece.text), piece.score);
      check(vocabulary.find(piece.text) == kNoId, ErrorKind::invalid_model,
            "piece {} is '{}', as is piece {}", i, escape(piece.text), vocabulary.find(piece.text));
      if (piece.type == Type::unknown) ++unknown;
      check(unknown <= 1, ErrorKind::invalid_model,
            "piece {} ('{}') is the second UNKNOWN, expected one", i, escape(piece.text));
      vocabulary.add(piece.text, static_cast<uint32_t>(i));
    }
    return vocabulary;
  }
};

class PieceUnigram : public PieceModel {
 public:
  explicit PieceUnigram(const SentencePieceSpec& spec) : PieceModel(spec) {
    std::vector<std::pair<std::string_view, uint32_t>> keys;
    float lowest = std::numeric_limits<float>::max();
    for (size_t i = 0; i < spec.pieces.size(); ++i) {
      const auto id = static_cast<uint32_t>(i);
      if (types_[i] == Type::normal) lowest = std::min(lowest, scores_[i]);
      if (!is_reserved(id) && types_[i] != Type::unused) {
        keys.emplace_back(vocabulary_.stored(id), id);
      }
      if (types_[i] == Type::user_defined) {
        // A bonus makes user-defined pieces win.
        const auto size = static_cast<double>(vocabulary_.stored(id).size());
        scores_[i] = static_cast<float>(0.1 * (size - 1));
      }
    }
    trie_ = ByteTrie(std::move(keys));
    unk_score_ = lowest - kUnkPenalty;
  }

  std::unique_ptr<ModelScratch> make_scratch() const override {
    return std::make_unique<Scratch>();
  }
  void tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                Tokens& tokens) const override {
    auto& own = static_cast<Scratch&>(scratch);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string_view piece = text.substr(pieces[i].begin, pieces[i].size());
      find_best(piece, own.nodes);
      own.ends.clear();
      for (auto end = static_cast<uint32_t>(piece.size()); end > 0; end = own.nodes[end].start) {
        own.ends.push_back(end);
      }
      Emitter to{tokens, static_cast<uint32_t>(i)};
      for (size_t k = own.ends.size(); k-- > 0;) {
        const Node& node = own.nodes[own.ends[k]];
        emit(piece.substr(node.start, own.ends[k] - node.start), node.id, to);
      }
    }
  }

 private:
  struct Node {
    float score;
    uint32_t start;
    uint32_t id;
  };
  struct Scratch : ModelScratch {
    std::vector<Node> nodes;
    std::vector<uint32_t> ends;
  };

  void find_best(std::string_view text, std::vector<Node>& nodes) const {
    constexpr float kTooFar = 100000.0F;  // larger scores are rebased, for precision
    nodes.assign(text.size() + 1, {0.0F, kNowhere, kNoId});
    const KeyFinder keys(trie_, text);
    size_t frontier = 0;
    for (size_t at = 0; at < text.size();) {
      float here = nodes[at].score;
      if (here < -kTooFar || here > kTooFar) {
        for (size_t i = at; i <= frontier; ++i) {
          if (i == at || nodes[i].start != kNowhere) nodes[i].score -= here;
        }
        here = 0.0F;
      }
      const size_t size = std::min(unicode::length(text[at]), text.size() - at);
      bool has_single = false;
      const auto offer = [&](size_t length, float score, uint32_t id) {
        frontier = std::max(frontier, at + length);
        Node& node = nodes[at + length];
        const float total = score + here;
        if (node.start == kNowhere || total > node.score) {
          node = {total, static_cast<uint32_t>(at), id};
        }
        has_single = has_single || length == size;
      };
      keys.visit(at, [&](size_t length, uint32_t id) { offer(length, scores_[id], id); });
      if (!has_single) offer(size, unk_score_, unk_id_);
      at += size;
    }
  }

  ByteTrie trie_;
  float unk_score_ = 0;
};

class PieceBpe : public PieceModel {
 public:
  explicit PieceBpe(const SentencePieceSpec& spec) : PieceModel(spec) {
    std::vector<float> order = scores_;
    std::sort(order.begin(), order.end(), std::greater<>());
    order.erase(std::unique(order.begin(), order.end()), order.end());
    std::vector<std::pair<std::string_view, uint32_t>> keys;
    for (size_t i = 0; i < types_.size(); ++i) {
      const auto id = static_cast<uint32_t>(i);
      const auto place = std::lower_bound(order.begin(), order.end(), scores_[i], std::greater<>());
      ranks_.push_back(is_reserved(id) ? kNoRank : static_cast<uint32_t>(place - order.begin()));
      if (types_[i] == Type::user_defined) keys.emplace_back(vocabulary_.stored(id), id);
      has_unused_ = has_unused_ || types_[i] == Type::unused;
      const std::string_view text = vocabulary_.stored(id);
      for (size_t at = text.find(kSpace, 1); at != std::string_view::npos && !is_reserved(id);
           at = text.find(kSpace, at + kSpace.size())) {
        joins_spaces_ = joins_spaces_ || at < kSpace.size() ||
                        text.substr(at - kSpace.size(), kSpace.size()) != kSpace;
      }
    }
    user_defined_ = ByteTrie(std::move(keys));
  }

  std::unique_ptr<ModelScratch> make_scratch() const override {
    return std::make_unique<Scratch>();
  }
  void tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                Tokens& tokens) const override {
    auto& own = static_cast<Scratch&>(scratch);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string_view piece = text.substr(pieces[i].begin, pieces[i].size());
      Emitter to{tokens, static_cast<uint32_t>(i)};
      own.splits.clear();
      // No piece crosses the start of a word, so words are merged separately.
      for (size_t begin = 0; begin < piece.size();) {
        size_t end = piece.size();
        if (!joins_spaces_ && !has_unused_) {
          end = begin;
          while (piece.substr(end, kSpace.size()) == kSpace) end += kSpace.size();
          end = std::min(piece.find(kSpace, end), piece.size());
        }
        word(piece.substr(begin, end - begin), own, to);
        begin = end;
      }
    }
  }

 private:
  static constexpr uint32_t kFrozen = kNoId - 1;
  struct Scratch : ModelScratch {
    BpeWork work;
    // Replaces unused pieces by the parts they were merged from.
    std::unordered_map<std::string_view, size_t> splits;
  };

  void word(std::string_view word, Scratch& scratch, Emitter& to) const {
    auto& symbols = scratch.work.symbols;
    symbols.clear();
    const KeyFinder user_defined(user_defined_, word);
    for (size_t at = 0; at < word.size();) {
      size_t size = user_defined.longest(at).first;
      const uint32_t id = size > 0 ? kFrozen : kNoId;
      if (size == 0) size = std::min(unicode::length(word[at]), word.size() - at);
      symbols.push_back({id, static_cast<uint32_t>(at), static_cast<uint32_t>(size)});
      at += size;
    }
    merge_symbols(scratch.work, [&](const BpeSymbol& left, const BpeSymbol& right) {
      if (left.id == kFrozen || right.id == kFrozen) return BpeJoin{kNoRank, 0};
      const std::string_view joined = word.substr(left.begin, left.size + right.size);
      const uint32_t id = vocabulary_.find(joined);
      if (id == kNoId) return BpeJoin{kNoRank, 0};
      if (types_[id] == Type::unused) scratch.splits[joined] = left.size;
      return BpeJoin{ranks_[id], id};
    });
    for (const BpeSymbol& symbol : symbols) {
      resegment(word.substr(symbol.begin, symbol.size), scratch, to, 0);
    }
  }

  void resegment(std::string_view text, Scratch& scratch, Emitter& to, int depth) const {
    const uint32_t id = vocabulary_.find(text);
    if (depth > kMaxResegmentDepth) return emit(text, id, to);
    if (id == kNoId || is_reserved(id)) return emit(text, unk_id_, to);
    if (types_[id] != Type::unused) return emit(text, id, to);
    const auto split = scratch.splits.find(text);
    if (split == scratch.splits.end()) return emit(text, unk_id_, to);
    const size_t size = split->second;
    resegment(text.substr(0, size), scratch, to, depth + 1);
    resegment(text.substr(size), scratch, to, depth + 1);
  }

  std::vector<uint32_t> ranks_;  // by descending score
  ByteTrie user_defined_;
  bool has_unused_ = false;
  bool joins_spaces_ = false;  // a piece has a ▁ behind another character
};

class PieceDecoder : public IdDecoder {
 public:
  explicit PieceDecoder(const SentencePieceSpec& spec)
      : pieces_(spec.pieces),
        unk_surface_(spec.unk_surface),
        drops_first_space_(spec.add_dummy_prefix || spec.remove_extra_whitespaces),
        drops_all_(spec.remove_extra_whitespaces) {}

  std::string decode(std::span<const uint32_t> ids, bool) const override {
    std::string text;
    std::string bytes;
    bool at_start = true;
    bool dropped = false;
    const auto flush = [&] {
      append_bytes(bytes, text);
      bytes.clear();
    };
    for (const uint32_t id : ids) {
      check(id < pieces_.size(), ErrorKind::invalid_argument,
            "id {} is not in the vocabulary of {} pieces", id, pieces_.size());
      const SentencePiece& piece = pieces_[id];
      if (piece.type == Type::byte) {
        bytes += static_cast<char>(std::stoi(piece.text.substr(3, 2), nullptr, 16));
        continue;
      }
      flush();
      if (dropped || !text.empty()) at_start = false;
      dropped = append(piece, at_start, text);
    }
    flush();
    return text;
  }

 private:
  // True if the leading space was dropped; only one is.
  bool append(const SentencePiece& piece, bool at_start, std::string& text) const {
    if (piece.type == Type::control) return false;
    if (piece.type == Type::unknown) {
      text += unk_surface_;
      return false;
    }
    std::string_view rest = piece.text;
    bool dropped = false;
    if (at_start && drops_first_space_ && rest.starts_with(kSpace)) {
      rest.remove_prefix(kSpace.size());
      dropped = !drops_all_;
    }
    for (size_t at = rest.find(kSpace); at != std::string_view::npos; at = rest.find(kSpace)) {
      text.append(rest.substr(0, at)) += ' ';
      rest.remove_prefix(at + kSpace.size());
    }
    text += rest;
    return dropped;
  }

  // Every invalid byte becomes U+FFFD.
  static void append_bytes(std::string_view bytes, std::string& text) {
    while (!bytes.empty()) {
      size_t good = unicode::find_invalid_utf8(bytes);
      if (good == std::string_view::npos) good = bytes.size();
      text += bytes.substr(0, good);
      bytes.remove_prefix(good);
      if (bytes.empty()) break;
      text += "\uFFFD";
      bytes.remove_prefix(1);
    }
  }

  std::vector<SentencePiece> pieces_;
  std::string unk_surface_;
  bool drops_first_space_, drops_all_;
};

}  // namespace

Parts make_sentence_piece(SentencePieceSpec spec) {
  Parts parts;
  for (size_t i = 0; i < spec.pieces.size(); ++i) {
    const SentencePiece& piece = spec.pieces[i];
    if (piece.type != Type::byte) continue;
    check(spec.byte_fallback, ErrorKind::invalid_model,
          "piece {} ('{}') is a byte, but the model has no byte_fallback", i, escape(piece.text));
    bool known = false;
    for (int byte = 0; byte < 256 && !known; ++byte) {
      known = piece.text == byte_token(static_cast<uint8_t>(byte));
    }
    check(known, ErrorKind::invalid_model,
          "piece {} is a byte called '{}', expected <0x00> to <0xFF>", i, escape(piece.text));
  }
  if (spec.bpe) {
    parts.model = std::make_unique<PieceBpe>(spec);
  } else {
    parts.model = std::make_unique<PieceUnigram>(spec);
  }
  parts.normalizer = make_sentence_piece_normalizer(spec);
  parts.id_decoder = std::make_unique<PieceDecoder>(spec);
  return parts;
}

}  // namespace lathe::tokenizer
