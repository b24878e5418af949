// SPDX-License-Identifier: MIT
#include "import/onnx/operators/beam_search_step.h"

#include <limits>

#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

std::vector<Value*> BeamConstants::list() const {
  std::vector<Value*> all{max_length, min_length, beams, length_penalty, repetition};
  if (mask != nullptr) all.push_back(mask);
  return all;
}

BeamConstants BeamConstants::from(std::span<Value* const> list) {
  return {list[0], list[1], list[2], list[3], list[4], list.size() > 5 ? list[5] : nullptr};
}

Value* BeamSearchStep::size(Value* x, int64_t axis) const {
  return b_("shape", {x}, {{"start", axis}, {"end", axis + 1}});
}

Value* BeamSearchStep::count_to(Value* size) const {
  return b_("range", {integer(0), b_("reshape", {size, b_.integers({})}), integer(1)});
}

Value* BeamSearchStep::join(std::initializer_list<Value*> parts, int64_t axis) const {
  return b_("concat", parts, {{"axis", axis}});
}

Value* BeamSearchStep::with_axis(Value* x, int64_t axis) const {
  return b_("unsqueeze", {x, b_.integers({axis})});
}

// x[i, index[i, j], ..].
Value* BeamSearchStep::pick(Value* x, Value* index) const {
  return b_("gather_nd", {x, with_axis(index, 2)}, {{"batch_dims", int64_t{1}}});
}

Value* BeamSearchStep::pick_elements(Value* x, Value* index) const {
  return b_("gather_elements", {x, index}, {{"axis", int64_t{1}}});
}

Value* BeamSearchStep::first_columns(Value* x) const {
  return b_("slice", {x, b_.integers({0}), k_.beams, b_.integers({1})});
}

Value* BeamSearchStep::along_beams(std::string_view op, Value* x) const {
  return b_(op, {x, b_.integers({1})}, {{"keep_dims", false}});
}

Value* BeamSearchStep::length_penalty(const BeamState& s) const {
  return b_("pow", {b_.cast(s.length, ElementType::f32), k_.length_penalty});
}

Value* BeamSearchStep::any_left(const BeamState& s) const {
  return b_("reduce_max", {b_("not", {s.done})}, {{"keep_dims", false}});
}

Value* BeamSearchStep::tokens(const BeamState& s) const {
  Value* rows = b_("reshape", {s.sequences, join({b_.integers({-1}), size(s.sequences, 2)})});
  return b_("slice", {rows, b_.integers({0}), with_axis(s.length, 0), b_.integers({1})});
}

Value* BeamSearchStep::last_tokens(const BeamState& s) const {
  Value* last = b_("sub", {s.length, integer(1)});
  Value* tokens = b_("gather", {s.sequences, last}, {{"axis", int64_t{2}}});
  return b_("reshape", {tokens, b_.integers({-1, 1})});
}

Value* BeamSearchStep::per_beam(const BeamState& s, Value* x, int64_t axis) const {
  Value* rows = b_("expand", {with_axis(count_to(size(s.scores, 0)), 1), b_("shape", {s.scores})});
  return b_("gather", {x, b_("reshape", {rows, b_.integers({-1})})}, {{"axis", axis}});
}

BeamState BeamSearchStep::begin(Value* tokens) const {
  const auto filled = [&](Value* shape, ElementType type, double value) {
    return b_("expand", {b_.scalar(type, value), shape});
  };
  Value* batch = size(tokens, 0);
  Value* beams = join({batch, k_.beams});
  Value* longest = with_axis(k_.max_length, 0);
  Value* all = join({beams, longest});
  Value* is_first = b_("equal", {count_to(k_.beams), integer(0)});
  BeamState s{};
  s.length = b_("reshape", {size(tokens, 1), b_.integers({})});
  const auto pad = static_cast<double>(settings_.pad_token);
  Value* room = join({batch, b_("sub", {longest, size(tokens, 1)})});
  Value* row = join({tokens, filled(room, ElementType::i32, pad)}, 1);
  s.sequences = b_("expand", {with_axis(row, 1), all});
  s.scores = b_("expand", {b_("where", {is_first, number(0), number(-1e9)}), beams});
  s.found = filled(all, ElementType::i32, pad);
  s.grades = filled(beams, ElementType::f32, kNever);
  s.done = filled(batch, ElementType::boolean, 0);
  return s;
}

// Log probabilities by the rules of the search.
Value* BeamSearchStep::changed(const BeamState& s, Value* x, Value* prefix_mask) const {
  if (settings_.has_repetition) {
    Value* index = b_.cast(tokens(s), ElementType::i64);
    Value* old = pick_elements(x, index);
    Value* penalised = b_("where", {b_("less", {old, number(0)}), b_("mul", {old, k_.repetition}),
                                    b_("div", {old, k_.repetition})});
    x = b_("scatter_elements", {x, index, penalised}, {{"axis", int64_t{1}}});
  }
  if (settings_.ngram > 0) x = block_repeated_ngrams(b_, tokens(s), x, settings_.ngram);
  for (Value* mask : {k_.mask, prefix_mask}) {
    if (mask != nullptr) x = b_("where", {mask, x, number(kNever)});
  }
  Value* is_end = b_("equal", {count_to(size(x, 1)), integer(settings_.end_token)});
  Value* is_short = b_("less", {s.length, k_.min_length});
  return b_("where", {b_("and", {is_end, is_short}), number(kNever), x});
}

// Keeps the best of the finished hypotheses and these.
void BeamSearchStep::add_found(BeamState& s, Value* sequences, Value* grades) const {
  Instruction* best =
      b_.add("top_k", {join({s.grades, grades}, 1), k_.beams}, {{"axis", int64_t{1}}});
  s.found = pick(join({s.found, sequences}, 1), best->result(1));
  s.grades = best->result(0);
}

Value* BeamSearchStep::advance(BeamState& s, Value* logits, Value* prefix_mask) const {
  Value* x = b_("log_softmax", {b_.cast(logits, ElementType::f32)}, {{"axis", int64_t{1}}});
  x = changed(s, x, prefix_mask);
  Value* vocabulary = size(x, 1);
  Value* sums = b_("reshape", {x, join({b_("shape", {s.scores}), vocabulary})});
  sums = b_("add", {sums, with_axis(s.scores, 2)});
  sums = b_("reshape", {sums, join({size(s.scores, 0), b_.integers({-1})})});
  // Twice as many candidates as beams: at most half of them end.
  Value* count = b_("mul", {k_.beams, integer(2)});
  Instruction* top = b_.add("top_k", {sums, count}, {{"axis", int64_t{1}}});
  Value* token = b_("mod", {top->result(1), vocabulary});
  Value* parent = b_("div", {top->result(1), vocabulary});
  Value* ends = b_("equal", {token, integer(settings_.end_token)});

  // Those in the first half that end are hypotheses.
  Value* counts = b_("and", {ends, b_("not", {with_axis(s.done, 1)})});
  Value* grades =
      b_("where", {counts, b_("div", {top->result(0), length_penalty(s)}), number(kNever)});
  add_found(s, pick(s.sequences, first_columns(parent)), first_columns(grades));
  Value* worst = along_beams("reduce_min", s.grades);
  Value* done = b_("greater", {worst, number(kNever)});
  if (!settings_.early_stopping) {
    Value* best = b_("div", {along_beams("reduce_max", top->result(0)), length_penalty(s)});
    done = b_("and", {done, b_("greater_or_equal", {worst, best})});
  }
  s.done = b_("or", {s.done, done});

  // The first of the others continue.
  Value* order =
      b_("add", {count_to(size(ends, 1)), b_("mul", {b_.cast(ends, ElementType::i64), count})});
  Instruction* live =
      b_.add("top_k", {order, k_.beams}, {{"axis", int64_t{1}}, {"largest", false}});
  s.scores = pick_elements(top->result(0), live->result(1));
  parent = pick_elements(parent, live->result(1));
  append(s, pick(s.sequences, parent), pick_elements(token, live->result(1)));
  Value* first = b_("mul", {with_axis(count_to(size(s.scores, 0)), 1), k_.beams});
  return b_("reshape", {b_("add", {first, parent}), b_.integers({-1})});
}

// The sequences with the tokens [batch, beams] behind their last one.
void BeamSearchStep::append(BeamState& s, Value* sequences, Value* tokens) const {
  Value* at = b_("equal", {count_to(size(sequences, 2)), s.length});
  Value* next = with_axis(b_.cast(tokens, ElementType::i32), 2);
  s.sequences = b_("where", {at, next, sequences});
  s.length = b_("add", {s.length, integer(1)});
}

void BeamSearchStep::advance_greedily(BeamState& s, Value* logits, Value* prefix_mask) const {
  Value* x = changed(s, b_.cast(logits, ElementType::f32), prefix_mask);
  Value* token = b_("arg_max", {x}, {{"axis", int64_t{1}}, {"keep_dims", false}});
  s.done = b_("or", {s.done, b_("equal", {token, integer(settings_.end_token)})});
  token = b_("where", {s.done, integer(settings_.pad_token), token});
  append(s, s.sequences, with_axis(token, 1));
}

void BeamSearchStep::finish(BeamState& s) const {
  Value* grades = b_("div", {s.scores, length_penalty(s)});
  add_found(s, s.sequences, b_("where", {with_axis(s.done, 1), number(kNever), grades}));
}

}  // namespace lathe::onnx
