// SPDX-License-Identifier: MIT
#include "llm/tokenizer/post_processor.h"

#include <algorithm>
#include <map>

#include "llm/tokenizer/json_fields.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

using SpecialToken = std::pair<uint32_t, std::string>;
constexpr size_t kMaxDepth = 16;

std::unique_ptr<PostProcessor> make(const Json& element, const std::string& where, size_t depth);

// Trims white space from the offsets. With `add_prefix_space` a single space at the start was
// added and is not trimmed.
void trim(Encoding& encoding, bool add_prefix_space) {
  const auto is_space = [](char32_t c) { return c == U'\u0120' || unicode::is_white_space(c); };
  for (size_t i = 0; i < encoding.tokens.size(); ++i) {
    const std::string& token = encoding.tokens[i];
    uint32_t leading = 0;
    for (size_t at = 0; at < token.size() && is_space(unicode::next(token, at));) ++leading;
    uint32_t trailing = 0;
    for (size_t end = token.size(); end > 0; ++trailing) {
      end = unicode::previous(token, end);
      size_t at = end;
      if (!is_space(unicode::next(token, at))) break;
    }
    auto& [begin, end] = encoding.offsets[i];
    if (leading == 1 && add_prefix_space && (i == 0 || begin == 0)) leading = 0;
    if (leading > 0) begin = std::min(begin + leading, end);
    if (trailing > 0 && end >= trailing) end = std::max(end - trailing, begin);
  }
}

void trim_all(std::vector<Encoding>& encodings, bool add_prefix_space) {
  for (Encoding& encoding : encodings) {
    trim(encoding, add_prefix_space);
    for (Encoding& overflow : encoding.overflowing) trim(overflow, add_prefix_space);
  }
}

class ByteLevelProcessor : public PostProcessor {
 public:
  ByteLevelProcessor(const Json& element, const std::string& where)
      : add_prefix_space_(flag_field(element, "add_prefix_space", where)),
        trim_offsets_(flag_field(element, "trim_offsets", where)) {}
  size_t added_tokens(bool) const override { return 0; }
  void apply(std::vector<Encoding>& encodings, bool) const override {
    if (trim_offsets_) trim_all(encodings, add_prefix_space_);
    for (size_t i = 0; i < encodings.size(); ++i) encodings[i].set_sequence(i);
  }

 private:
  bool add_prefix_space_, trim_offsets_;
};

// Adds special tokens of one type around `encoding` and its overflow.
Encoding surround(Encoding encoding, const std::vector<SpecialToken>& before,
                  const std::vector<SpecialToken>& after, uint32_t type_id, size_t sequence) {
  Encoding out;
  out.detailed = encoding.detailed;
  for (const auto& [id, token] : before) out.add_special(id, token, type_id);
  const size_t begin = out.size();
  std::vector<Encoding> overflowing = std::move(encoding.overflowing);
  encoding.overflowing.clear();
  encoding.sequence_ranges.clear();
  if (encoding.detailed) {
    encoding.special_tokens_mask.assign(encoding.size(), 0);
    encoding.attention_mask.assign(encoding.size(), 1);
  }
  out.merge(std::move(encoding));
  out.sequence_ranges[sequence] = {begin, out.size()};
  for (const auto& [id, token] : after) out.add_special(id, token, type_id);
  for (Encoding& overflow : overflowing) {
    out.overflowing.push_back(surround(std::move(overflow), before, after, type_id, sequence));
  }
  return out;
}

SpecialToken special_token(const Json& object, std::string_view name, const std::string& where) {
  const Json& pair = array_field(object, name, where);
  const std::string path = json_path(where, name);
  check(pair.size() == 2, ErrorKind::invalid_model,
        "{} has {} elements, expected a token and its id", path, pair.size());
  return {to_id(pair[1], json_path(path, 1)), to_text(pair[0], json_path(path, 0))};
}

// [CLS] a [SEP], then b [SEP].
class BertProcessor : public PostProcessor {
 public:
  BertProcessor(const Json& element, const std::string& where)
      : cls_(special_token(element, "cls", where)), sep_(special_token(element, "sep", where)) {}
  size_t added_tokens(bool is_pair) const override { return is_pair ? 3 : 2; }
  void apply(std::vector<Encoding>& encodings, bool add_special_tokens) const override {
    if (!add_special_tokens) return;
    for (size_t i = 0; i < encodings.size(); ++i) {
      encodings[i] = i == 0 ? surround(std::move(encodings[i]), {cls_}, {sep_}, 0, 0)
                            : surround(std::move(encodings[i]), {}, {sep_}, 1, 1);
    }
  }

 private:
  SpecialToken cls_, sep_;
};

// <s> a </s>, then </s> b </s>, all of one type.
class RobertaProcessor : public PostProcessor {
 public:
  RobertaProcessor(const Json& element, const std::string& where)
      : cls_(special_token(element, "cls", where)),
        sep_(special_token(element, "sep", where)),
        trim_offsets_(flag_field(element, "trim_offsets", where)),
        add_prefix_space_(flag_field(element, "add_prefix_space", where)) {}
  size_t added_tokens(bool is_pair) const override { return is_pair ? 4 : 2; }
  void apply(std::vector<Encoding>& encodings, bool add_special_tokens) const override {
    if (trim_offsets_) trim_all(encodings, add_prefix_space_);
    for (Encoding& encoding : encodings) encoding.set_type_ids(0);
    if (!add_special_tokens) return;
    for (size_t i = 0; i < encodings.size(); ++i) {
      for (Encoding& overflow : encodings[i].overflowing) overflow.set_type_ids(0);
      encodings[i] = surround(std::move(encodings[i]), {i == 0 ? cls_ : sep_}, {sep_}, 0,
                              std::min<size_t>(i, 1));
    }
  }

 private:
  SpecialToken cls_, sep_;
  bool trim_offsets_, add_prefix_space_;
};

class TemplateProcessor : public PostProcessor {
 public:
  TemplateProcessor(const Json& element, const std::string& where) {
    const Json& specials = get_field(element, "special_tokens", where);
    check(specials.is_object(), ErrorKind::invalid_model,
          "{}.special_tokens is {}, expected an object", where, specials.type_name());
    for (const auto& [name, special] : specials.items()) {
      specials_[name] = read_special(special, json_path(where + ".special_tokens", name));
    }
    single_ = read_template(element, "single", where, 1);
    pair_ = read_template(element, "pair", where, 2);
  }
  TemplateProcessor(std::vector<SpecialToken> before, std::vector<SpecialToken> after) {
    specials_["before"] = std::move(before);
    specials_["after"] = std::move(after);
    single_ = {{"before", 0, 0}, {"", 0, 0}, {"after", 0, 0}};
    pair_ = single_;
    pair_.insert(pair_.end(), {{"before", 0, 1}, {"", 1, 1}, {"after", 0, 1}});
  }

  size_t added_tokens(bool is_pair) const override {
    size_t count = 0;
    for (const Piece& piece : is_pair ? pair_ : single_) {
      if (!piece.special.empty()) count += specials_.at(piece.special).size();
    }
    return count;
  }
  void apply(std::vector<Encoding>& encodings, bool add_special_tokens) const override {
    check(encodings.size() == 1 || encodings.size() == 2, ErrorKind::invalid_model,
          "TemplateProcessing has {} inputs, expected 1 or 2: it must be the last processor that "
          "adds tokens",
          encodings.size());
    std::vector<Encoding> out;
    for (const Piece& piece : encodings.size() == 2 ? pair_ : single_) {
      if (piece.special.empty()) {
        Encoding& encoding = encodings[piece.sequence];
        encoding.set_type_ids(piece.type_id);
        encoding.set_sequence(piece.sequence);
        out.push_back(encoding);
      } else if (add_special_tokens) {
        Encoding& special = out.emplace_back();
        special.detailed = encodings[0].detailed;
        for (const auto& [id, token] : specials_.at(piece.special)) {
          special.add_special(id, token, piece.type_id);
        }
      }
    }
    encodings = std::move(out);
  }

 private:
  struct Piece {
    std::string special;  // empty: inserts text number `sequence`
    size_t sequence = 0;
    uint32_t type_id = 0;
  };

  static std::vector<SpecialToken> read_special(const Json& special, const std::string& where) {
    const Json& ids = array_field(special, "ids", where);
    const Json& tokens = array_field(special, "tokens", where);
    check(ids.size() == tokens.size(), ErrorKind::invalid_model, "{} has {} ids, but {} tokens",
          where, ids.size(), tokens.size());
    std::vector<SpecialToken> out;
    for (size_t i = 0; i < ids.size(); ++i) {
      out.emplace_back(to_id(ids[i], json_path(where + ".ids", i)),
                       to_text(tokens[i], json_path(where + ".tokens", i)));
    }
    return out;
  }
  std::vector<Piece> read_template(const Json& element, std::string_view name,
                                   const std::string& where, size_t texts) const {
    const Json& list = array_field(element, name, where);
    std::vector<Piece> out;
    for (size_t i = 0; i < list.size(); ++i) {
      out.push_back(read_piece(list[i], json_path(json_path(where, name), i), texts));
    }
    return out;
  }
  Piece read_piece(const Json& element, const std::string& where, size_t texts) const {
    if (const Json* sequence = find_field(element, "Sequence", where)) {
      const std::string id = text_field(*sequence, "id", where + ".Sequence");
      check(id == "A" || (id == "B" && texts == 2), ErrorKind::invalid_model,
            "{}.Sequence.id is '{}', expected 'A'{}", where, escape(id),
            texts == 2 ? " or 'B'" : "");
      return {"", id == "B" ? size_t{1} : size_t{0},
              to_id(get_field(*sequence, "type_id", where), where + ".Sequence.type_id")};
    }
    const Json& special = get_field(element, "SpecialToken", where);
    std::string id = text_field(special, "id", where + ".SpecialToken");
    check(specials_.contains(id) && !id.empty(), ErrorKind::invalid_model,
          "{}.SpecialToken.id is '{}', which is not in special_tokens", where, escape(id));
    return {std::move(id), 0,
            to_id(get_field(special, "type_id", where), where + ".SpecialToken.type_id")};
  }

  std::map<std::string, std::vector<SpecialToken>> specials_;
  std::vector<Piece> single_, pair_;
};

class SequenceProcessor : public PostProcessor {
 public:
  SequenceProcessor(const Json& element, const std::string& where, size_t depth) {
    const Json& list = array_field(element, "processors", where);
    for (size_t i = 0; i < list.size(); ++i) {
      processors_.push_back(make(list[i], json_path(where + ".processors", i), depth + 1));
    }
  }
  size_t added_tokens(bool is_pair) const override {
    size_t count = 0;
    for (const auto& processor : processors_) count += processor->added_tokens(is_pair);
    return count;
  }
  void apply(std::vector<Encoding>& encodings, bool add_special_tokens) const override {
    for (const auto& processor : processors_) processor->apply(encodings, add_special_tokens);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> processors_;
};

std::unique_ptr<PostProcessor> make(const Json& element, const std::string& where, size_t depth) {
  check(depth < kMaxDepth, ErrorKind::invalid_model, "{} is nested deeper than {} levels", where,
        kMaxDepth);
  const std::string type = text_field(element, "type", where);
  if (type == "ByteLevel") return std::make_unique<ByteLevelProcessor>(element, where);
  if (type == "BertProcessing") return std::make_unique<BertProcessor>(element, where);
  if (type == "RobertaProcessing") return std::make_unique<RobertaProcessor>(element, where);
  if (type == "TemplateProcessing") return std::make_unique<TemplateProcessor>(element, where);
  if (type == "Sequence") return std::make_unique<SequenceProcessor>(element, where, depth);
  fail(ErrorKind::unsupported,
       "{}.type is '{}', expected ByteLevel, BertProcessing, RobertaProcessing, TemplateProcessing "
       "or Sequence",
       where, escape(type));
}

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const Json& element, std::string_view where) {
  return element.is_null() ? nullptr : make(element, std::string(where), 0);
}

std::unique_ptr<PostProcessor> make_surround(std::vector<SpecialToken> before,
                                             std::vector<SpecialToken> after) {
  return std::make_unique<TemplateProcessor>(std::move(before), std::move(after));
}

Encoding post_process(const PostProcessor* processor, Encoding first, Encoding* second,
                      bool add_special_tokens) {
  std::vector<Encoding> encodings;
  encodings.push_back(std::move(first));
  if (second != nullptr) encodings.push_back(std::move(*second));
  const bool detailed = encodings[0].detailed;
  if (processor != nullptr || encodings.size() > 1) {
    for (size_t i = 0; i < encodings.size(); ++i) {
      encodings[i].set_sequence(i);
      if (processor == nullptr) continue;
      for (Encoding& overflow : encodings[i].overflowing) overflow.set_sequence(i);
      encodings[i].set_type_ids(static_cast<uint32_t>(i));
    }
  }
  if (processor != nullptr) processor->apply(encodings, add_special_tokens);
  if (encodings.size() == 1) return std::move(encodings[0]);
  Encoding out;
  out.detailed = detailed;
  for (Encoding& encoding : encodings) out.merge(std::move(encoding));
  return out;
}

}  // namespace lathe::tokenizer
