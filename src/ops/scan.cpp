// SPDX-License-Identifier: MIT
// Operands: `carried` values, `scanned` inputs, captured values. Body: (carried…, one slice of each
// input, captured…) → (carried…, one slice of each scan output). Each input and output has an axis
// and a direction (0 forward, 1 backward).
#include "ops/support/control_flow.h"

namespace lathe {
namespace {

int64_t entry(const Instruction& instruction, std::string_view attribute, int i) {
  const auto& list = std::get<Integers>(*find_attribute(instruction.attributes(), attribute));
  if (list.empty()) return 0;
  check(static_cast<size_t>(i) < list.size(), ErrorKind::invalid_model,
        "scan: '{}' has {} entries, expected one for index {}", attribute, list.size(), i);
  return list[static_cast<size_t>(i)];
}

int scan_axis(const Instruction& instruction, int i, int rank) {
  const int64_t axis = entry(instruction, "input_axes", i);
  check(axis >= -rank && axis < rank, ErrorKind::invalid_model,
        "scan: axis {} of input {} is out of range for rank {}", axis, i, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

void check_counts(const Instruction& instruction) {
  const Module& body = *instruction.bodies()[0];
  const int carried = count_attribute(instruction, "carried");
  const int scanned = count_attribute(instruction, "scanned");
  check(carried >= 0 && scanned >= 0 &&
            static_cast<int>(instruction.operands().size()) >= carried + scanned &&
            body.parameters().size() == instruction.operands().size() &&
            static_cast<int>(body.results().size()) >= carried,
        ErrorKind::invalid_model,
        "scan: {} carried and {} scanned values do not match {} operands, {} parameters and {} "
        "results of the body",
        carried, scanned, instruction.operands().size(), body.parameters().size(),
        body.results().size());
}

void bind_scan(Instruction& instruction) {
  check_counts(instruction);
  Module& body = *instruction.bodies()[0];
  const int carried = count_attribute(instruction, "carried");
  const int scanned = count_attribute(instruction, "scanned");
  bind_captures(instruction, 0);
  for (int i = 0; i < scanned; ++i) {
    const Type& input = instruction.operands()[static_cast<size_t>(carried + i)]->type();
    Type slice = input;
    if (input.dims)
      slice.dims->erase(slice.dims->begin() + scan_axis(instruction, i, input.rank()));
    body.parameters()[static_cast<size_t>(carried + i)]->set_type(std::move(slice));
  }
  bind_carried(instruction, body, 0, 0, 0, carried);
}

void infer_scan(Infer& c) {
  check_counts(c.instruction());
  const Instruction& instruction = c.instruction();
  const Module& body = c.body(0);
  const int carried = count_attribute(instruction, "carried");
  const int scanned = count_attribute(instruction, "scanned");
  const std::set<std::string> inner = inner_symbols(instruction, body);
  c.check(scanned > 0, "got {} scanned inputs, expected at least 1", scanned);
  std::optional<Dim> trips;
  for (int i = 0; i < scanned; ++i) {
    if (!c.type(carried + i).dims) continue;
    const int axis = scan_axis(instruction, i, c.rank(carried + i));
    if (!trips) {
      trips = c.dim(carried + i, axis);
    } else {
      c.require_equal(*trips, c.dim(carried + i, axis), "lengths of the scanned inputs");
    }
  }
  for (int i = 0; i < carried; ++i) {
    const Type& start = c.type(i);
    const Type& next = body.parameters()[static_cast<size_t>(i)]->type();
    std::optional<Type> joined = join_types(start, next, [&](int) { return c.found("carried"); });
    c.check(joined.has_value(), "carried value {} is {} at first and {} later", i,
            start.to_string(), next.to_string());
    c.result(outer_type(c, *joined, inner, "carried"));
  }
  for (size_t i = static_cast<size_t>(carried); i < body.results().size(); ++i) {
    const Type& slice = body.results()[i]->type();
    if (!slice.is_ranked() || !trips) {
      c.result(Type::unranked(slice.element));
      continue;
    }
    std::vector<Dim> dims;
    for (const Dim& dim : *slice.dims) dims.push_back(outer_dim(c, dim, inner, "scan"));
    const int axis = c.axis(entry(instruction, "output_axes", static_cast<int>(i) - carried),
                            static_cast<int>(dims.size()) + 1);
    dims.insert(dims.begin() + axis, *trips);
    c.result(slice.element, std::move(dims));
  }
}

}  // namespace

static const Register scan{{
    .name = "scan",
    .doc = "Runs a body once per slice of its inputs; carries values and stacks outputs.",
    .operands = {{.name = "values", .arity = Arity::variadic, .any_kind = true}},
    .attributes = {{"carried", AttributeKind::integer},
                   {"scanned", AttributeKind::integer},
                   {"input_axes", Integers{}},
                   {"input_directions", Integers{}},
                   {"output_axes", Integers{}},
                   {"output_directions", Integers{}}},
    .traits = kTakesUnranked,
    .results = -1,
    .bodies = {"body"},
    .structural = Structural::scan,
    .infer = infer_scan,
    .capture =
        [](const Instruction& instruction, int, int parameter) {
          const int own =
              count_attribute(instruction, "carried") + count_attribute(instruction, "scanned");
          return parameter < own ? -1 : parameter;
        },
    .bind_bodies = bind_scan,
}};

}  // namespace lathe
