// SPDX-License-Identifier: MIT
// Operands: trip count (i64, optional), condition (bool, optional), `carried` values, captured
// values. Body: (iteration i64[], condition bool[], carried…, captured…) → (condition, carried…,
// one slice of each scan output).
#include "ops/support/control_flow.h"

namespace lathe {
namespace {

int carried_count(const Instruction& instruction) {
  return count_attribute(instruction, "carried");
}

void check_counts(const Instruction& instruction) {
  const Module& body = *instruction.bodies()[0];
  const int carried = carried_count(instruction);
  check(
      carried >= 0 && static_cast<int>(instruction.operands().size()) >= 2 + carried &&
          body.parameters().size() == instruction.operands().size() &&
          static_cast<int>(body.results().size()) >= 1 + carried,
      ErrorKind::invalid_model,
      "loop: {} carried values do not match {} operands, {} parameters and {} results of the body",
      carried, instruction.operands().size(), body.parameters().size(), body.results().size());
}

void bind_loop(Instruction& instruction) {
  check_counts(instruction);
  Module& body = *instruction.bodies()[0];
  const int carried = carried_count(instruction);
  body.parameters()[0]->set_type(Type::tensor(ElementType::i64, {}));
  body.parameters()[1]->set_type(Type::tensor(ElementType::boolean, {}));
  bind_captures(instruction, 0);
  bind_carried(instruction, body, 2, 2, 1, carried);
}

void infer_loop(Infer& c) {
  check_counts(c.instruction());
  const Module& body = c.body(0);
  const int carried = carried_count(c.instruction());
  const std::set<std::string> inner = inner_symbols(c.instruction(), body);
  c.check(body.results()[0]->type().element == ElementType::boolean,
          "the body's condition is {}, expected one bool", body.results()[0]->type().to_string());
  for (int i = 0; i < carried; ++i) {
    // Zero iterations return the operand itself: both types must join.
    const Type& start = c.type(2 + i);
    const Type& next = body.parameters()[static_cast<size_t>(2 + i)]->type();
    std::optional<Type> joined = join_types(start, next, [&](int) { return c.found("carried"); });
    c.check(joined.has_value(), "carried value {} is {} at first and {} later", i,
            start.to_string(), next.to_string());
    c.result(outer_type(c, *joined, inner, "carried"));
  }
  std::optional<Dim> trips;
  for (size_t i = static_cast<size_t>(1 + carried); i < body.results().size(); ++i) {
    const Type& slice = body.results()[i]->type();
    c.check(slice.is_tensor(), "scan output {} is {}, expected a tensor", i, slice.to_string());
    if (!slice.dims) {
      c.result(slice);
      continue;
    }
    if (!trips) trips = c.found("trips");
    std::vector<Dim> dims{*trips};
    for (const Dim& dim : *slice.dims) dims.push_back(outer_dim(c, dim, inner, "scan"));
    c.result(slice.element, std::move(dims));
  }
}

}  // namespace

static const Register loop{{
    .name = "loop",
    .doc = "Runs a body while the condition holds, at most `trip_count` times.",
    .operands = {{"trip_count", types(ElementType::i64), Arity::optional},
                 {"condition", kBoolean, Arity::optional},
                 {.name = "values", .arity = Arity::variadic, .any_kind = true}},
    .attributes = {{"carried", AttributeKind::integer}},
    .traits = kTakesUnranked,
    .results = -1,
    .bodies = {"body"},
    .structural = Structural::loop,
    .infer = infer_loop,
    .capture =
        [](const Instruction& instruction, int, int parameter) {
          return parameter < 2 + carried_count(instruction) ? -1 : parameter;
        },
    .bind_bodies = bind_loop,
}};

}  // namespace lathe
