// SPDX-License-Identifier: MIT
#include "passes/decoder/pack_sequences.h"

#include <algorithm>

#include "base/error.h"
#include "passes/decoder/decoder_packing.h"
#include "passes/decoder/simplify_decoder.h"

namespace lathe {
namespace {

void check_names(const Module& main, const DecoderInterface& names) {
  const auto parameter = [&](const std::string& name) {
    const Value* value = find_parameter(main, name);
    check(value != nullptr, ErrorKind::invalid_argument, "the program has no input '{}'",
          escape(name));
    return value;
  };
  const auto result = [&](const std::string& name) {
    const auto& results = main.result_names();
    check(std::ranges::find(results, name) != results.end(), ErrorKind::invalid_argument,
          "the program has no output '{}'", escape(name));
  };
  const Type& tokens = parameter(names.tokens)->type();
  check(tokens.is_ranked() && tokens.rank() >= 2, ErrorKind::invalid_argument,
        "input '{}' is {}, expected [batch, tokens]", escape(names.tokens), tokens.to_string());
  result(names.logits);
  for (const StatePair& pair : names.states) {
    parameter(pair.past);
    result(pair.present);
  }
  for (const StatePair& pair : names.cross) parameter(pair.past);
}

PackedProgram pack(const Program& program, const DecoderInterface& names, bool free_positions,
                   const PassOptions& options) {
  std::unique_ptr<Program> own = program.clone();
  own->stage = Stage::imported;
  DecoderPacking packing(names, free_positions);
  run_passes(*own, packing.pipeline(), options);
  PackedProgram packed = packing.take();
  if (packed.not_packed_reason.empty()) packed.program = std::move(own);
  return packed;
}

}  // namespace

bool StepTableNames::contains(std::string_view input) const {
  return input == token_bounds || input == past_lengths || input == state_slots ||
         std::ranges::any_of(pages, [&](const Pages& p) { return p.table == input; }) ||
         std::ranges::any_of(
             cross, [&](const Cross& c) { return c.table == input || c.lengths == input; });
}

PackedProgram pack_sequences(const Program& program, const DecoderInterface& interface,
                             const PassOptions& options) {
  check_names(program.main(), interface);
  if (interface.positions.empty()) return pack(program, interface, false, options);
  PackedProgram free = pack(program, interface, true, options);
  if (free.program != nullptr) return free;
  // Masks may be computed from positions: then positions must count the tokens.
  PackedProgram counted = pack(program, interface, false, options);
  counted.fixed_positions =
      fmt::format("positions must count the tokens ({})", free.not_packed_reason);
  return counted;
}

}  // namespace lathe
