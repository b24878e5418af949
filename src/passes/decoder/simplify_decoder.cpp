// SPDX-License-Identifier: MIT
#include "passes/decoder/simplify_decoder.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/ops.h"

namespace lathe {
namespace {

int result_of(const Module& main, const std::string& name) {
  const auto& names = main.result_names();
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

std::optional<int64_t> constant_index(const Instruction& gather) {
  const auto& elements = gather.operands()[1]->elements();
  const auto axis = std::get<int64_t>(*find_attribute(gather.attributes(), "axis"));
  if (axis != 0 || !elements || elements->size() != 1) return std::nullopt;
  return elements->front().constant();
}

// The halves [b, heads, tokens, size] that a combined present is concatenated from.
std::optional<std::array<Value*, 2>> halves_of(const Value* present) {
  const Instruction* concat = present->definition();
  if (concat == nullptr || concat->op() != ops::concat || concat->operands().size() != 2 ||
      std::get<int64_t>(*find_attribute(concat->attributes(), "axis")) != 0) {
    return std::nullopt;
  }
  std::array<Value*, 2> halves{};
  for (size_t i = 0; i < 2; ++i) {
    const Instruction* half = concat->operands()[i]->definition();
    if (half == nullptr || half->op() != ops::unsqueeze ||
        half->operands()[0]->type().rank() != 4) {
      return std::nullopt;
    }
    halves[i] = half->operands()[0];
  }
  return halves;
}

bool split(Program& program, DecoderInterface& names, const StatePair& pair) {
  Module& main = program.main();
  Value* past = find_parameter(main, pair.past);
  const int result = result_of(main, pair.present);
  if (past == nullptr || result < 0 || !past->type().is_ranked() || past->type().rank() != 5) {
    return false;
  }
  const auto halves = halves_of(main.results()[static_cast<size_t>(result)]);
  if (!halves) return false;
  for (const Use& use : past->uses()) {
    if (use.user == nullptr || use.user->op() != ops::gather || use.index != 0) return false;
    const std::optional<int64_t> index = constant_index(*use.user);
    if (!index || *index < 0 || *index > 1 || use.user->result()->type().rank() != 4) return false;
  }
  Type type = past->type();
  type.dims->erase(type.dims->begin());
  std::array<Value*, 2> parts{};
  std::vector<Value*> results = main.results();
  std::vector<std::string> result_names = main.result_names();
  for (size_t i = 0; i < 2; ++i) {
    const std::string suffix = i == 0 ? "/0" : "/1";
    parts[i] = main.add_parameter(type, pair.past + suffix);
    results.push_back((*halves)[i]);
    result_names.push_back(pair.present + suffix);
    names.states.push_back({pair.past + suffix, pair.present + suffix});
  }
  while (!past->uses().empty()) {
    Instruction* gather = past->uses().front().user;
    main.replace_uses(gather->result(), parts[static_cast<size_t>(*constant_index(*gather))]);
    main.erase(gather);
  }
  main.set_results(std::move(results), std::move(result_names));
  main.remove_result(result_of(main, pair.present));
  main.remove_parameter(past->index());
  return true;
}

// True for a cache of fixed capacity.
bool is_written_into(const Value* past) {
  return std::ranges::any_of(past->uses(), [](const Use& use) {
    return use.user != nullptr && use.index == 0 && use.user->op() == ops::tensor_scatter;
  });
}

}  // namespace

Value* find_parameter(const Module& main, const std::string& name) {
  for (const auto& parameter : main.parameters()) {
    if (parameter->name() == name) return parameter.get();
  }
  return nullptr;
}

int token_axis(const Type& type) {
  return type.rank() == 3 && type.dims->front() == Dim(3) ? 2 : 1;
}

std::map<std::string, StatePair> split_combined_states(Program& program, DecoderInterface& names) {
  std::map<std::string, StatePair> combined;
  const std::vector<StatePair> pairs = std::move(names.states);
  names.states.clear();
  for (const StatePair& pair : pairs) {
    if (!split(program, names, pair)) {
      names.states.push_back(pair);
      continue;
    }
    for (const StatePair& half : std::span(names.states).last(2)) combined[half.past] = pair;
  }
  return combined;
}

bool eliminate_copies(Program& program) {
  Module& main = program.main();
  std::vector<Instruction*> copies;
  for (const auto& instruction : main.instructions()) {
    const Op& op = instruction->op();
    const bool one = instruction->operands().size() == 1;
    const bool same =
        one && op == ops::cast &&
        instruction->operands()[0]->type().element == instruction->result()->type().element;
    if (same || (one && (op == ops::identity || op == ops::concat)))
      copies.push_back(instruction.get());
  }
  for (Instruction* copy : copies) {
    main.replace_uses(copy->result(), copy->operands()[0]);
    main.erase(copy);
  }
  return !copies.empty();
}

namespace {

constexpr std::string_view kPastTokens = "past_tokens";

std::vector<Type> types_of(const Module& main) {
  std::vector<Type> types;
  for (const auto& parameter : main.parameters()) types.push_back(parameter->type());
  for (const auto& instruction : main.instructions()) {
    for (const Value& result : instruction->results()) types.push_back(result.type());
  }
  return types;
}

// The symbol of the first growing state's length; 0: none.
Dim past_of(const Program& program, const DecoderInterface& names, const Dim& batch) {
  for (const StatePair& pair : names.states) {
    const Value* past = find_parameter(program.main(), pair.past);
    if (past == nullptr || !past->type().is_ranked()) continue;
    if (past->type().rank() < 4 || is_written_into(past)) continue;
    const Dim length = (*past->type().dims)[2];
    if (length.as_symbol() != nullptr && !(length == batch)) return length;
  }
  const SymbolRef added = program.find_symbol(kPastTokens);
  return added == nullptr ? Dim(0) : Dim(added);
}

}  // namespace

std::optional<TokenExtents> find_token_extents(const Program& program,
                                               const DecoderInterface& names) {
  const Value* tokens = find_parameter(program.main(), names.tokens);
  if (tokens == nullptr || !tokens->type().is_ranked() || tokens->type().rank() < 2) return {};
  const Dim count = (*tokens->type().dims)[1];
  if (count.as_symbol() == nullptr) return {};
  return TokenExtents{past_of(program, names, 1), count};
}

std::optional<TokenExtents> set_token_extents(Program& program, const DecoderInterface& names,
                                              bool& changed) {
  Module& main = program.main();
  const Value* tokens = find_parameter(main, names.tokens);
  const Dim batch = tokens->type().dims->front();
  Dim count = (*tokens->type().dims)[1];
  const bool single = count == Dim(1);
  if ((!single && (batch == count || count.as_symbol() == nullptr)) ||
      (batch.as_symbol() == nullptr && !(batch == Dim(1)))) {
    return std::nullopt;
  }
  if (single) count = program.add_symbol("tokens", SymbolKind::bound, {});
  TokenExtents extents{past_of(program, names, batch), count};
  const bool written = std::ranges::any_of(names.states, [&](const StatePair& pair) {
    const Value* past = find_parameter(main, pair.past);
    return past != nullptr && past->type().is_ranked() && is_written_into(past);
  });
  // A cache of fixed capacity has no dimension for the number of cached tokens.
  if (written && extents.past == Dim(0)) {
    extents.past = program.add_symbol(kPastTokens, SymbolKind::bound, {});
  }
  const std::vector<Type> types = types_of(main);
  const std::vector<Guard> guards = main.guards();
  for (const auto& parameter : main.parameters()) {
    Type type = parameter->type();
    if (!type.is_ranked()) continue;
    std::vector<Dim>& dims = *type.dims;
    for (Dim& dim : dims) {
      if (batch.as_symbol() != nullptr && dim == batch) dim = 1;
    }
    const bool state =
        std::ranges::find(names.states, parameter->name(), &StatePair::past) != names.states.end();
    const bool length = parameter->name() == names.past_length ||
                        parameter->name() == names.new_length ||
                        parameter->name() == names.total_length;
    const bool by_tokens =
        parameter->name() == names.tokens || parameter->name() == names.positions ||
        std::ranges::find(names.token_inputs, parameter->name()) != names.token_inputs.end();
    if (by_tokens && dims.size() >= 2) {
      const auto axis = static_cast<size_t>(token_axis(type));
      dims[axis - 1] = 1;
      dims[axis] = count;
    } else if (parameter->name() == names.mask && dims.size() == 2) {
      dims[0] = 1;
      if (!(extents.past == Dim(0)) && !dims[1].is_constant()) dims[1] = extents.past + count;
    } else if (length && dims.size() == 1 && dims[0].as_symbol() != nullptr) {
      dims[0] = 1;
    } else if (state && dims.size() == 4 && dims[2].as_symbol() != nullptr &&
               !is_written_into(parameter.get())) {
      dims[0] = 1;
      dims[2] = extents.past;
    } else if (state && dims.front().as_symbol() != nullptr) {
      dims[0] = 1;
    }
    parameter->set_type(type);
  }
  main.guards().clear();
  try {
    infer(main);
  } catch (const Error&) {
    if (!single) throw;
    return std::nullopt;
  }
  changed |= single || types != types_of(main) || guards != main.guards();
  return extents;
}

AffineAnalysis decoder_positions(const Program& program, const DecoderInterface& names,
                                 const TokenExtents& extents) {
  std::map<const Value*, AffineValue> given;
  const auto set_value = [&](const std::string& name,
                             const std::function<AffineValue(int rank)>& what) {
    const Value* value = name.empty() ? nullptr : find_parameter(program.main(), name);
    if (value == nullptr || !value->type().is_ranked()) return;
    given[value] = what(value->type().rank());
  };
  const auto count = [](const Dim& dim) {
    return [dim](int rank) {
      return AffineValue::index({std::vector<int64_t>(static_cast<size_t>(rank), 0), dim});
    };
  };
  const Value* mask = names.mask.empty() ? nullptr : find_parameter(program.main(), names.mask);
  const bool fixed_length = mask != nullptr && mask->type().is_ranked() &&
                            mask->type().rank() > 0 && mask->type().dims->back().is_constant();
  set_value(names.mask, [&](int rank) {
    if (!fixed_length) return AffineValue::constant(1);
    // A mask as long as the caches' capacity: ones for the tokens so far.
    Linear held{std::vector<int64_t>(static_cast<size_t>(rank), 0),
                extents.past + extents.tokens - Dim(1)};
    held.steps.back() = -1;
    return AffineValue{std::nullopt, {std::move(held)}, 1, 0};
  });
  set_value(names.positions, [&](int rank) {
    Linear linear{std::vector<int64_t>(static_cast<size_t>(rank), 0), extents.past};
    linear.steps.back() = 1;
    return AffineValue::index(std::move(linear));
  });
  set_value(names.past_length, count(extents.past));
  set_value(names.new_length, count(extents.tokens));
  set_value(names.total_length, count(extents.past + extents.tokens));
  // Decoders count their tokens in 32 bits.
  constexpr int64_t kMostTokens = (int64_t{1} << 30) - 1;
  return AffineAnalysis(program.main(), std::move(given), kMostTokens);
}

namespace {

// The input of positions; adds one if there is none.
Value* positions_of(Module& main, DecoderInterface& names, const TokenExtents& extents) {
  Value* positions = find_parameter(main, names.positions);
  if (positions == nullptr) {
    // If the program has unrelated position_ids, the new input gets another name.
    const std::string name =
        find_parameter(main, "position_ids") == nullptr ? "position_ids" : "token_numbers";
    positions = main.add_parameter(Type::tensor(ElementType::i64, {1, extents.tokens}), name);
    names.positions = positions->name();
  }
  return positions;
}

// True if the elements are the new tokens' positions, in order.
bool counts_tokens(const Value* value, const AffineAnalysis& flow, const TokenExtents& extents) {
  const AffineValue* known = flow.find(value);
  if (known == nullptr || !known->linear || !(known->linear->offset == extents.past)) return false;
  const std::vector<int64_t>& steps = known->linear->steps;
  const auto along = std::ranges::find(steps, 1);
  if (along == steps.end() || std::ranges::count(steps, 0) + 1 != std::ssize(steps)) return false;
  const std::vector<Dim>& dims = *value->type().dims;
  return element_count(dims) == extents.tokens &&
         dims[static_cast<size_t>(along - steps.begin())] == extents.tokens;
}

// True for the input of positions, cast or reshaped by constants.
bool reads_positions(const Value* value, const DecoderInterface& names) {
  while (const Instruction* definition = value->definition()) {
    const bool reshapes = definition->op() == ops::reshape;
    if (!reshapes && definition->op() != ops::cast) return false;
    const Instruction* shape = reshapes ? definition->operands()[1]->definition() : nullptr;
    if (reshapes && (shape == nullptr || !is_any_of(shape->op(), {&ops::literal, &ops::dims}))) {
      return false;
    }
    value = definition->operands()[0];
  }
  return value->name() == names.positions;
}

// The axis along which a slice of a table selects the new tokens' positions; -1: none.
int cut_axis(const Instruction& slice, const TokenExtents& extents) {
  const auto single = [&](size_t i) -> std::optional<Dim> {
    const Value* value = i < slice.operands().size() ? slice.operands()[i] : nullptr;
    if (value == nullptr || !value->elements() || value->elements()->size() != 1) return {};
    return value->elements()->front();
  };
  const auto has = [&](size_t i) {
    return i < slice.operands().size() && slice.operands()[i] != nullptr;
  };
  const Type& table = slice.operands()[0]->type();
  const bool fixed = table.is_ranked() && std::ranges::all_of(*table.dims, [](const Dim& dim) {
                       return dim.is_constant();
                     });
  if (!fixed || single(1) != extents.past || single(2) != extents.past + extents.tokens ||
      (has(4) && single(4) != Dim(1))) {
    return -1;
  }
  if (!has(3)) return table.rank() == 1 ? 0 : -1;
  const std::optional<int64_t> axis = single(3) ? single(3)->constant() : std::nullopt;
  if (!axis) return -1;
  return static_cast<int>(*axis < 0 ? *axis + table.rank() : *axis);
}

}  // namespace

bool absorb_positions(Program& program, DecoderInterface& names, const TokenExtents& extents) {
  Module& main = program.main();
  if (extents.past == Dim(0)) return false;
  const AffineAnalysis flow = decoder_positions(program, names, extents);
  std::vector<Instruction*> counting;
  std::vector<std::pair<Instruction*, int>> cuts;
  for (const auto& instruction : main.instructions()) {
    if (instruction->results().size() != 1 || instruction->result()->uses().empty()) continue;
    if (counts_tokens(instruction->result(), flow, extents) &&
        !reads_positions(instruction->result(), names)) {
      counting.push_back(instruction.get());
    }
    if (instruction->op() != ops::slice) continue;
    const int axis = cut_axis(*instruction, extents);
    if (axis >= 0) cuts.emplace_back(instruction.get(), axis);
  }
  if (counting.empty() && cuts.empty()) return false;
  Value* positions = positions_of(main, names, extents);
  if (positions->type().rank() != 2) return false;
  for (Instruction* instruction : counting) {
    Builder builder(main, instruction);
    builder.set_origins(instruction->origins());
    const Type& type = instruction->result()->type();
    Value* cast = builder.cast(positions, type.element);
    main.replace_uses(instruction->result(), builder.reshape(cast, *type.dims));
  }
  for (const auto& [cut, axis] : cuts) {
    Builder builder(main, cut);
    builder.set_origins(cut->origins());
    Value* indices = builder.reshape(builder.cast(positions, ElementType::i64), {extents.tokens});
    Value* gathered =
        builder(ops::gather, {cut->operands()[0], indices}, {{"axis", int64_t{axis}}});
    main.replace_uses(cut->result(), gathered);
    // The dim of the new tokens is written in another way.
    infer_users(*gathered);
  }
  return true;
}

}  // namespace lathe
