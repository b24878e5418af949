// SPDX-License-Identifier: MIT
#include "ops/support/control_flow.h"

namespace lathe {
namespace {

// Results of equal types in both branches keep that type; others get the join of the two.
void infer_if(Infer& c) {
  c.check(c.type(0).is_ranked() && element_count(c.dims(0)) == Dim(1),
          "the condition is {}, expected one bool", c.type(0).to_string());
  const Module& yes = c.body(0);
  const Module& no = c.body(1);
  c.check(yes.results().size() == no.results().size(), "'then' has {} results, 'else' has {}",
          yes.results().size(), no.results().size());
  const std::set<std::string> inner_yes = inner_symbols(c.instruction(), yes);
  const std::set<std::string> inner_no = inner_symbols(c.instruction(), no);
  for (size_t i = 0; i < yes.results().size(); ++i) {
    const Type& a = yes.results()[i]->type();
    const Type& b = no.results()[i]->type();
    std::optional<Type> joined = join_types(a, b, [&](int) { return c.found("branch"); });
    c.check(joined.has_value(), "result {} is {} in 'then' and {} in 'else'", i, a.to_string(),
            b.to_string());
    std::set<std::string> inner = inner_yes;
    inner.insert(inner_no.begin(), inner_no.end());
    c.result(outer_type(c, *joined, inner, "branch"));
  }
}

}  // namespace

static const Register if_op{{
    .name = "if",
    .doc = "Runs one of two bodies; both have all captured values.",
    .operands = {{"condition", kBoolean},
                 {.name = "captured", .arity = Arity::variadic, .any_kind = true}},
    .traits = kTakesUnranked,
    .results = -1,
    .bodies = {"then", "else"},
    .structural = Structural::if_,
    .infer = infer_if,
    .capture = [](const Instruction&, int, int parameter) { return parameter + 1; },
    .bind_bodies =
        [](Instruction& instruction) {
          for (int body = 0; body < 2; ++body) {
            bind_captures(instruction, body);
            infer(*instruction.bodies()[static_cast<size_t>(body)]);
          }
        },
}};

}  // namespace lathe
