// SPDX-License-Identifier: MIT
// Each sequence has a row of logits, parameters (support/choose_tokens.h), edits [edit_bounds[i],
// edit_bounds[i + 1]) of single logits, each {token, kind} and a value (base/logit_edit.h), and
// possibly a mask: bit t % 32 of word t / 32 allows token t. Order: edits, mask, temperature,
// top-k, top-p, min-p, typical, epsilon, eta; then the sample, along ascending tokens, by Philox
// keyed by seed, sequence and position. NaN counts as -infinity. A sequence without a finite logit
// gets token -1. Log-probabilities are those of the reported row, unchanged: of the token (0
// without a row), and of the tokens at `ranks` by falling logit, the lower token first among equals
// (-1 without one).
#include <algorithm>
#include <cmath>

#include "base/thread_scratch.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/choose_tokens.h"

namespace lathe {
namespace {

using Operands = ChoiceOperands;

void infer_choose_tokens(Infer& c) {
  for (const int i : {Operands::logits, Operands::integers, Operands::numbers, Operands::edits}) {
    c.check(c.rank(i) == 2, "{} has rank {}, expected 2",
            c.instruction().op().operands[static_cast<size_t>(i)].name, c.rank(i));
  }
  for (const int i : {Operands::edit_bounds, Operands::edit_values, Operands::ranks}) {
    c.check(c.rank(i) == 1, "{} has rank {}, expected 1",
            c.instruction().op().operands[static_cast<size_t>(i)].name, c.rank(i));
  }
  const Dim sequences = c.dim(Operands::integers, 0);
  c.require_equal(c.dim(Operands::integers, 1), kChoiceIntegers, "integers of a sequence");
  c.require_equal(c.dim(Operands::numbers, 0), sequences, "sequences of the parameters");
  c.require_equal(c.dim(Operands::numbers, 1), kChoiceNumbers, "numbers of a sequence");
  c.require_equal(c.dim(Operands::edit_bounds, 0), sequences + 1, "bounds of the edits");
  c.require_equal(c.dim(Operands::edits, 1), 2, "token and kind of an edit");
  c.require_equal(c.dim(Operands::edit_values, 0), c.dim(Operands::edits, 0), "values of edits");
  if (c.has(Operands::masks)) {
    c.check(c.rank(Operands::masks) == 2, "masks has rank {}, expected 2", c.rank(Operands::masks));
  }
  const Dim ranks = c.dim(Operands::ranks, 0);
  c.result(ElementType::i32, {sequences});
  c.result(ElementType::f32, {sequences});
  c.result(ElementType::i32, {sequences, ranks});
  c.result(ElementType::f32, {sequences, ranks});
}

int32_t choose(const Operands& o, int64_t sequence, std::span<float> logits) {
  const int64_t row = o.integer(sequence, ChoiceInteger::row);
  if (!o.is_row(row)) return -1;
  o.read_row(row, logits);
  if (!o.change(sequence, logits)) return -1;
  const ChoiceParameters parameters = o.parameters(sequence);
  if (!parameters.sample) return choose_largest(logits);
  if (!std::isfinite(*std::ranges::max_element(logits))) return -1;
  apply_cutoffs(logits, parameters);
  return choose_by(logits, o.uniform(sequence));
}

void eval_choose_tokens(Evaluation& c) {
  const Operands o(c);
  const ScratchArray<float> memory(o.vocabulary());
  const std::span<float> logits(memory.begin(), memory.size());
  for (int64_t i = 0; i < o.sequences(); ++i) {
    const int32_t token = choose(o, i, logits);
    o.store(Operands::tokens, i, token);
    o.report(i, token, logits);
  }
}

}  // namespace

static const Register choose_tokens{{
    .name = "choose_tokens",
    .doc = "Tokens chosen from the logits of sequences, with log-probabilities.",
    .operands = {{"logits", kFloats},
                 {"integers", types(ElementType::i64)},
                 {"numbers", types(ElementType::f64)},
                 {"edit_bounds", types(ElementType::i32)},
                 {"edits", types(ElementType::i32)},
                 {"edit_values", types(ElementType::f64)},
                 {"ranks", types(ElementType::i32)},
                 {"masks", types(ElementType::u32), Arity::optional}},
    .results = 4,
    .infer = infer_choose_tokens,
    .eval = eval_choose_tokens,
}};

}  // namespace lathe
