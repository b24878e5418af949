// SPDX-License-Identifier: MIT
#include "passes/decoder/decoder_packing.h"

#include <algorithm>

#include "base/error.h"
#include "ir/infer.h"
#include "passes/analysis/token_axis.h"
#include "passes/decoder/fold_conv_transposes.h"
#include "passes/decoder/gather_before_head.h"
#include "passes/decoder/pack_states.h"
#include "passes/decoder/simplify_decoder.h"
#include "passes/eliminate_dead_code.h"
#include "passes/fold_constants.h"

namespace lathe {
namespace {

int find_result(const Module& main, const std::string& name) {
  const auto& names = main.result_names();
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

const Instruction* find_unranked(const Module& main) {
  for (const auto& instruction : main.instructions()) {
    for (const Value& result : instruction->results()) {
      if (!result.type().is_ranked()) return instruction.get();
    }
  }
  return nullptr;
}

}  // namespace

DecoderPacking::DecoderPacking(DecoderInterface names, bool free_positions)
    : names_(std::move(names)), input_positions_(names_.positions) {
  if (!free_positions || names_.positions.empty()) return;
  names_.token_inputs.push_back(names_.positions);
  names_.positions.clear();
}

Pass DecoderPacking::pass(std::string_view name, std::string_view doc,
                          bool (DecoderPacking::*run)(Program&), bool changes_requirements) {
  return {.name = name,
          .doc = doc,
          .run =
              [this, run](Program& program) {
                const bool changed = packed_.not_packed_reason.empty() && (this->*run)(program);
                // Replacements may write the dim of the new tokens in another way.
                if (changed) infer(program.main());
                return changed;
              },
          .changes_interface = true,
          .changes_requirements = changes_requirements};
}

Pipeline DecoderPacking::pipeline() {
  using Self = DecoderPacking;
  return {
      .stages =
          {{Stage::canonical,
            {
                pass("simplify_decoder",
                     "Sets the batch to one and every length to past or new tokens, and "
                     "splits combined KV caches.",
                     &Self::simplify, true),
                pass("merge_longrope_tables",
                     "Merges the cos/sin caches of short and long sequences into one table.",
                     &Self::merge_tables),
                pass("share_kv_caches",
                     "Shares one KV cache among attention that appends the same tokens.",
                     &Self::share_caches),
                pass("pack_attention",
                     "Converts attention written in standard ops to sequence_attention.",
                     &Self::pack_attention),
                fold_constants,  // readers of state shapes
                pass("pack_states", "Converts ops with a past to sequence ops.",
                     &Self::pack_states),
                pass("absorb_positions",
                     "Reads the new tokens' positions from the input that has them.",
                     &Self::absorb),
                pass("fold_conv_transposes", "Folds the transposes around sequence_conv into it.",
                     &Self::fold_transposes),
                fold_constants,
                pass("eliminate_unused_inputs",
                     "Removes masks, lengths and pasts that nothing reads.", &Self::drop_inputs),
                pass("gather_before_head",
                     "Proves that the program is token-wise, and computes the logits of "
                     "requested tokens only.",
                     &Self::gather_logits, true),
            }}},
      .cleanup = eliminate_dead_code,
  };
}

bool DecoderPacking::refuse(std::string why) {
  packed_.not_packed_reason = std::move(why);
  return false;
}

bool DecoderPacking::find_extents(const Program& program) {
  if (!extents_) extents_ = find_token_extents(program, names_);
  return extents_ || refuse("the program has no dynamic sequence axis");
}

bool DecoderPacking::simplify(Program& program) {
  Module& main = program.main();
  for (const auto& input : main.parameters()) {
    if (input->type().is_ranked()) continue;
    return refuse(fmt::format("the input '{}' is {}, of unknown rank", escape(input->name()),
                              input->type().to_string()));
  }
  if (const Instruction* unranked = find_unranked(main)) {
    return refuse(describe(*unranked, "its result has no static rank"));
  }
  bool changed = eliminate_copies(program);
  combined_ = split_combined_states(program, names_);
  changed |= !combined_.empty();
  extents_ = set_token_extents(program, names_, changed);
  if (extents_) return changed;
  return refuse(fmt::format("the input '{}' is {}, expected dynamic batch and sequence axes",
                            escape(names_.tokens),
                            find_parameter(main, names_.tokens)->type().to_string()));
}

// The length is the size of the mask, or past plus new tokens.
bool DecoderPacking::merge_tables(Program& program) {
  const Module& main = program.main();
  LongRopeNames names;
  names.tokens = find_parameter(main, names_.tokens);
  names.positions = find_parameter(main, input_positions_);
  names.table_rows = "table_rows";
  const auto extent = [](const Value* value, size_t axis) {
    const auto& dims = value->type().dims;
    return dims && dims->size() > axis ? std::optional((*dims)[axis]) : std::nullopt;
  };
  if (const Value* mask = find_parameter(main, names_.mask)) {
    if (const auto total = extent(mask, 1)) names.totals.push_back(*total);
  }
  for (const StatePair& pair : names_.states) {
    const auto past = extent(find_parameter(main, pair.past), 2);
    if (past) names.totals.push_back(*past + *extent(names.tokens, 1));
  }
  packed_.length_switch = merge_longrope_tables(program, names);
  if (packed_.length_switch) packed_.table_rows = main.parameters().back()->name();
  return packed_.length_switch.has_value();
}

bool DecoderPacking::share_caches(Program& program) {
  shared_ = share_kv_caches(program, names_, packed_.tables);
  return !shared_.empty();
}

bool DecoderPacking::pack_attention(Program& program) {
  if (!find_extents(program)) return false;
  const Module& main = program.main();
  AttentionPacking attention(program, names_, *extents_, packed_.tables);
  for (const StatePair& pair : names_.states) {
    const int result = find_result(main, pair.present);
    Instruction* owner =
        result < 0 ? nullptr : main.results()[static_cast<size_t>(result)]->definition();
    if (owner == nullptr || is_state_op(*owner, false)) continue;
    std::string why = attention.recognise(pair, *owner, is_state_op(*owner, true));
    if (!why.empty()) return refuse(std::move(why));
  }
  if (std::string why = attention.recognise_across(); !why.empty()) return refuse(std::move(why));
  attention.convert();
  std::ranges::copy(attention.shared(), std::back_inserter(shared_));
  for (SequenceState state : attention.states()) {
    done_.insert(state.name);
    if (const auto both = combined_.find(state.name); both != combined_.end()) {
      state.part = state.name.ends_with("/1") ? 1 : 0;
      state.past = both->second.past;
      state.present = both->second.present;
    }
    packed_.states.push_back(std::move(state));
  }
  return attention.converted();
}

bool DecoderPacking::pack_states(Program& program) {
  if (!find_extents(program)) return false;
  std::vector<SequenceState>& states = packed_.states;
  const size_t before = states.size();
  StatePacking packing(program, names_, *extents_, packed_.tables, done_);
  if (std::string why = packing.run(states); !why.empty()) return refuse(std::move(why));
  const bool changed = states.size() > before;
  widen_windows(states, shared_);
  SequenceForm(program, packed_.tables).set_page_tables(states);
  std::ranges::move(cross_states(program, names_), std::back_inserter(states));
  return changed;
}

bool DecoderPacking::absorb(Program& program) {
  return find_extents(program) && absorb_positions(program, names_, *extents_);
}

bool DecoderPacking::fold_transposes(Program& program) {
  return fold_conv_transposes(program.main());
}

bool DecoderPacking::drop_inputs(Program& program) {
  Module& main = program.main();
  std::vector<std::string> all;
  for (const auto& parameter : main.parameters()) all.push_back(parameter->name());
  for (const std::string& name : all) {
    const auto& inputs = names_.token_inputs;
    if (name == names_.tokens || name == names_.positions || name == packed_.table_rows ||
        packed_.tables.contains(name) || std::ranges::find(inputs, name) != inputs.end()) {
      continue;
    }
    const Value* value = find_parameter(main, name);
    if (!value->uses().empty()) {
      const Instruction* reader = value->uses().front().user;
      return refuse(fmt::format(
          "the input '{}' is read by {}", escape(name),
          reader == nullptr ? "the results" : describe(*reader, "it was not converted")));
    }
    main.remove_parameter(value->index());
  }
  for (const std::string& name : {names_.positions, input_positions_}) {
    Value* positions = find_parameter(main, name);
    if (positions != nullptr && positions->uses().empty()) {
      main.remove_parameter(positions->index());
    }
  }
  if (input_positions_.empty() || input_positions_ == names_.positions) {
    packed_.positions = names_.positions;
  } else {
    packed_.positions = input_positions_;
    packed_.token_numbers = names_.positions;
  }
  return main.parameters().size() < all.size();
}

// The past's size has no meaning in a packed program.
const Instruction* DecoderPacking::find_reader_of_past(const Module& main) const {
  const SymbolRef past = extents_->past.as_symbol();
  if (past == nullptr) return nullptr;
  const auto mentions = [&](const std::vector<Dim>& dims) {
    std::vector<SymbolRef> symbols;
    for (const Dim& dim : dims) dim.collect_symbols(symbols);
    return std::ranges::any_of(symbols, [&](const SymbolRef& s) { return s->name == past->name; });
  };
  for (const auto& instruction : main.instructions()) {
    for (const Value& result : instruction->results()) {
      const bool ranked = result.type().is_tensor() && result.type().is_ranked();
      if ((ranked && mentions(*result.type().dims)) ||
          (result.elements() && mentions(*result.elements()))) {
        return instruction.get();
      }
    }
  }
  return nullptr;
}

bool DecoderPacking::gather_logits(Program& program) {
  if (!find_extents(program)) return false;
  Module& main = program.main();
  main.guards().clear();
  infer(main);
  if (const Instruction* reader = find_reader_of_past(main)) {
    return refuse(describe(*reader, "it depends on the number of cached tokens"));
  }
  std::map<const Value*, int> inputs = {{find_parameter(main, names_.tokens), 1}};
  std::vector<std::string> others = names_.token_inputs;
  others.insert(others.end(), {names_.positions, packed_.table_rows});
  for (const std::string& name : others) {
    if (const Value* input = find_parameter(main, name)) inputs[input] = token_axis(input->type());
  }
  const TokenAxes flow = trace_tokens(main, inputs);
  if (flow.blocking != nullptr) return refuse(describe(*flow.blocking, flow.reason));
  Value* logits = main.results()[static_cast<size_t>(find_result(main, names_.logits))];
  if (!flow.axes.contains(logits)) return refuse("the logits have no token axis");
  for (size_t i = 0; i < main.results().size(); ++i) {
    const Value* result = main.results()[i];
    if (main.result_names()[i] == names_.logits) continue;
    const auto axis = flow.axes.find(result);
    packed_.outputs.push_back(
        {main.result_names()[i], axis == flow.axes.end() ? -1 : axis->second});
  }
  packed_.logit_positions = gather_before_head(program, logits, flow, extents_->tokens);
  return true;
}

}  // namespace lathe
