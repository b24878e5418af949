// SPDX-License-Identifier: MIT
#include "llm/tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

constexpr double kUnkPenalty = 10.0;
constexpr uint32_t kNowhere = 0xFFFFFFFF;

Vocabulary vocabulary_of(const std::vector<std::pair<std::string, double>>& pieces) {
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.first.size();
  vocabulary.reserve(pieces.size(), bytes);
  for (size_t i = 0; i < pieces.size(); ++i) {
    vocabulary.add(pieces[i].first, static_cast<uint32_t>(i));
  }
  return vocabulary;
}

}  // namespace

// The best segmentation up to each byte: its score, its last token and that token's start.
class Unigram::Scratch : public ModelScratch {
 public:
  struct Node {
    double score;
    uint32_t start;
    uint32_t id;
  };
  std::vector<Node> nodes;
  std::vector<Range> ranges;
};

Unigram::Unigram(std::vector<std::pair<std::string, double>> pieces, std::optional<uint32_t> unk_id,
                 bool byte_fallback)
    : Model(vocabulary_of(pieces)),
      pieces_(std::move(pieces)),
      unk_id_(unk_id),
      byte_fallback_(byte_fallback) {
  check(!unk_id_ || *unk_id_ < pieces_.size(), ErrorKind::invalid_model,
        "model.unk_id is {}, but model.vocab has {} tokens", unk_id_.value_or(0), pieces_.size());
  std::vector<std::pair<std::string_view, uint32_t>> keys;
  keys.reserve(pieces_.size());
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    keys.emplace_back(pieces_[i].first, static_cast<uint32_t>(i));
    scores_.push_back(pieces_[i].second);
    if (pieces_[i].second < lowest) lowest = pieces_[i].second;
  }
  trie_ = ByteTrie(std::move(keys));
  unk_score_ = lowest - kUnkPenalty;
  for (int i = 0; i < 256; ++i) {
    bytes_.push_back(vocabulary_.find(byte_token(static_cast<uint8_t>(i))));
  }
}

std::unique_ptr<ModelScratch> Unigram::make_scratch() const { return std::make_unique<Scratch>(); }

void Unigram::find_best(std::string_view text, Scratch& scratch) const {
  auto& nodes = scratch.nodes;
  nodes.assign(text.size() + 1, {0.0, kNowhere, 0});
  const KeyFinder keys(trie_, text);
  for (size_t at = 0; at < text.size();) {
    const double here = nodes[at].score;
    const size_t size = std::min(unicode::length(text[at]), text.size() - at);
    bool has_single = false;
    const auto offer = [&](size_t end, double score, uint32_t id) {
      auto& node = nodes[end];
      if (node.start == kNowhere || score > node.score) {
        node = {score, static_cast<uint32_t>(at), id};
      }
    };
    keys.visit(at, [&](size_t length, uint32_t id) {
      offer(at + length, scores_[id] + here, id);
      has_single = has_single || length == size;
    });
    if (!has_single) {
      auto& node = nodes[at + size];
      if (node.start == kNowhere || unk_score_ + here > node.score) {
        check(unk_id_.has_value(), ErrorKind::invalid_model,
              "the text has '{}', which is not a token, and model.unk_id is missing",
              escape(text.substr(at, size)));
        node = {unk_score_ + here, static_cast<uint32_t>(at), *unk_id_};
      }
    }
    at += size;
  }
}

void Unigram::emit(std::string_view text, Range range, Tokens& tokens, uint32_t index) const {
  const std::string_view covered = text.substr(range.begin, range.size());
  const uint32_t id = vocabulary_.find(covered);
  if (id != kNoId) return tokens.add(id, range, index, true);
  if (byte_fallback_) {
    bool all = true;
    for (const char byte : covered) all = all && bytes_[static_cast<uint8_t>(byte)] != kNoId;
    if (all) {
      for (const char byte : covered) tokens.add(bytes_[static_cast<uint8_t>(byte)], range, index);
      return;
    }
  }
  check(unk_id_.has_value(), ErrorKind::invalid_model,
        "the text has '{}', which is not a token, and model.unk_id is missing", escape(covered));
  tokens.add(*unk_id_, range, index, true);
}

// Reads the tokens backwards; adjacent unknown tokens become one.
void Unigram::piece(std::string_view text, Scratch& scratch, Tokens& tokens, uint32_t index) const {
  find_best(text, scratch);
  auto& ranges = scratch.ranges;
  ranges.clear();
  bool after_unknown = false;
  for (auto end = static_cast<uint32_t>(text.size()); end > 0;) {
    const auto& node = scratch.nodes[end];
    const bool unknown = unk_id_ && node.id == *unk_id_;
    if (unknown && after_unknown) {
      ranges.back().begin = node.start;
    } else {
      ranges.push_back({node.start, end});
    }
    after_unknown = unknown;
    end = node.start;
  }
  for (size_t i = ranges.size(); i-- > 0;) emit(text, ranges[i], tokens, index);
}

void Unigram::tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                       Tokens& tokens) const {
  auto& own = static_cast<Scratch&>(scratch);
  for (size_t i = 0; i < pieces.size(); ++i) {
    piece(text.substr(pieces[i].begin, pieces[i].size()), own, tokens, static_cast<uint32_t>(i));
  }
}

}  // namespace lathe::tokenizer
