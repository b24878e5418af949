// SPDX-License-Identifier: MIT
// Symbols that inputs and states bind.
#include "passes/place.h"
#include "plan/planner.h"

namespace lathe {

void ModulePlanner::plan_inputs() {
  if (is_main_) {
    plan_page_dims();
    for (const State* state : plan_.stored) {
      std::vector<SymbolRef> symbols;
      if (state->axis >= 0) {
        (*state->type.dims)[static_cast<size_t>(state->axis)].collect_symbols(symbols);
      }
      for (const SymbolRef& symbol : symbols) known_.insert(planner_.symbol_id(*symbol));
    }
  }
  // Binds symbols first: an expression may precede the input that binds its symbols.
  std::set<SymbolId> bound;
  for (const bool binding : {true, false}) {
    for (size_t i = 0; i < module_.parameters().size(); ++i) {
      const Value& parameter = *module_.parameters()[i];
      if (binding) {
        const SlotId slot = add_slot(parameter, SlotKind::input);
        Slot& planned = out_.slots[static_cast<size_t>(slot)];
        planned.index = static_cast<int>(i);
        if (is_main_ && plan_.device != nullptr && input_lies_on_device(parameter)) {
          planned.space = Space::device;
        }
        out_.inputs.push_back(slot);
      }
      if (!parameter.type().is_ranked()) continue;
      for (int axis = 0; axis < parameter.type().rank(); ++axis) {
        const Dim& dim = (*parameter.type().dims)[static_cast<size_t>(axis)];
        const SymbolRef symbol = dim.as_symbol();
        const bool binds = symbol != nullptr && !known_.contains(planner_.symbol_id(*symbol));
        if (binds != binding) continue;
        InputDim input{static_cast<int>(i), axis, planner_.dim_id(dim), -1};
        if (binds) {
          input.binds = planner_.symbol_id(*symbol);
          bound.insert(input.binds);
          known_.insert(input.binds);
        }
        out_.input_dims.push_back(input);
      }
    }
  }
}

// The dims of the memory that runs bind to paged states.
void ModulePlanner::plan_page_dims() {
  for (size_t i = 0; i < plan_.paged.size(); ++i) {
    const State& state = *plan_.paged[i];
    for (int axis = 0; axis < state.type.rank(); ++axis) {
      const Dim& dim = (*state.type.dims)[static_cast<size_t>(axis)];
      const SymbolRef symbol = dim.as_symbol();
      check(symbol != nullptr || dim.is_constant(), ErrorKind::unsupported,
            "paged state '{}' is {}, expected dims that are symbols or constants",
            escape(state.name), state.type.to_string());
      PageDim& planned = plan_.page_dims.emplace_back();
      planned.state = static_cast<int>(i);
      planned.axis = axis;
      planned.constant = dim.constant().value_or(0);
      if (symbol == nullptr) continue;
      planned.symbol = planner_.symbol_id(*symbol);
      known_.insert(planned.symbol);
    }
  }
}

// Adds the symbols of states that no input binds.
void ModulePlanner::plan_state_dims() {
  for (size_t i = 0; i < plan_.stored.size(); ++i) {
    const Type& type = plan_.stored[i]->type;
    for (int axis = 0; axis < type.rank(); ++axis) {
      const SymbolRef symbol = (*type.dims)[static_cast<size_t>(axis)].as_symbol();
      if (symbol == nullptr || known_.contains(planner_.symbol_id(*symbol))) continue;
      plan_.state_dims.push_back({static_cast<int>(i), axis, planner_.symbol_id(*symbol)});
      known_.insert(plan_.state_dims.back().symbol);
    }
  }
}

}  // namespace lathe
