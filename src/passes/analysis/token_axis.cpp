// SPDX-License-Identifier: MIT
#include "passes/analysis/token_axis.h"

#include <algorithm>
#include <optional>

#include "ir/op.h"

namespace lathe {
namespace {

// The token axis of an instruction's results, or why there is none.
struct Verdict {
  std::optional<int> axis;
  std::string reason;
};

Verdict refuse(std::string reason) { return {std::nullopt, std::move(reason)}; }

class Step {
 public:
  Step(const Instruction& instruction, const std::map<const Value*, int>& axes, const Dim& tokens)
      : instruction_(instruction), axes_(axes), tokens_(tokens) {}

  const Instruction& instruction() const { return instruction_; }
  size_t count() const { return instruction_.operands().size(); }
  const Value* operand(size_t i) const {
    return i < count() ? instruction_.operands()[i] : nullptr;
  }
  std::optional<int> axis(size_t i) const {
    const auto at = axes_.find(operand(i));
    return operand(i) == nullptr || at == axes_.end() ? std::nullopt : std::optional(at->second);
  }
  int rank(size_t i) const { return operand(i)->type().rank(); }
  const std::vector<Dim>& dims(size_t i) const { return *operand(i)->type().dims; }
  int64_t integer(std::string_view name) const {
    return std::get<int64_t>(*find_attribute(instruction_.attributes(), name));
  }
  int axis_attribute(std::string_view name, int rank) const {
    const int64_t axis = integer(name);
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  // Consecutive elements per token along an axis of this size; 0 if it has no tokens.
  Dim per_token(const Dim& extent) const {
    if (extent == tokens_) return 1;
    const Dim count = Dim::floor_div(extent, tokens_);
    return count * tokens_ == extent ? count : Dim(0);
  }
  // True if each token of the operand is one element of its axis.
  bool single(size_t i) const { return dims(i)[static_cast<size_t>(*axis(i))] == tokens_; }
  // True if operands from `first` on have no token axis.
  bool fixed_from(size_t first) const {
    for (size_t i = first; i < count(); ++i) {
      if (axis(i)) return false;
    }
    return true;
  }

 private:
  const Instruction& instruction_;
  const std::map<const Value*, int>& axes_;
  const Dim& tokens_;
};

// Broadcast operands must have their token axes at one axis of the result.
Verdict elementwise(const Step& s) {
  const int rank = s.instruction().result()->type().rank();
  std::optional<int> found;
  for (size_t i = 0; i < s.count(); ++i) {
    if (!s.axis(i)) continue;
    const int axis = *s.axis(i) + rank - s.rank(i);
    if (found && *found != axis) return refuse("token axes of two operands do not align");
    found = axis;
  }
  // An operand without tokens must not vary along the token axis: it would depend on positions.
  for (size_t i = 0; i < s.count(); ++i) {
    const int own = found.value_or(0) - (rank - (s.operand(i) == nullptr ? rank : s.rank(i)));
    if (s.operand(i) == nullptr || s.axis(i) || own < 0) continue;
    if (s.dims(i)[static_cast<size_t>(own)].constant() != 1) {
      return refuse("an operand without tokens spans the token axis");
    }
  }
  return {found, ""};
}

// The op mixes elements from axis `first` on: the token axis must be before it.
Verdict before_axis(const Step& s, int first) {
  if (!s.fixed_from(1)) {
    const Verdict all = elementwise(s);
    if (!all.axis) return all;
  }
  if (*s.axis(0) >= first) return refuse("it mixes elements along the token axis");
  return {s.axis(0), ""};
}

Verdict not_along(const Step& s, int axis) {
  if (!s.axis(0) || !s.fixed_from(1))
    return refuse("an operand other than the first has a token axis");
  if (*s.axis(0) == axis) return refuse("it mixes elements along the token axis");
  return {s.axis(0), ""};
}

Verdict last_axis(const Step& s) { return before_axis(s, s.rank(0) - 1); }

Verdict normalise_from_axis(const Step& s) {
  return before_axis(s, s.axis_attribute("axis", s.rank(0)));
}

Verdict along_axis(const Step& s) { return not_along(s, s.axis_attribute("axis", s.rank(0))); }

// The token axis is a batch axis of one or both matrices, or axis M of the first.
Verdict matmul(const Step& s) {
  const int result = s.instruction().result()->type().rank();
  if (s.count() > 2 && !s.fixed_from(2)) return refuse("operand C has a token axis");
  std::optional<int> found;
  for (size_t i = 0; i < 2; ++i) {
    if (!s.axis(i)) continue;
    const int rank = s.rank(i);
    if (rank < 2 || *s.axis(i) == (i == 0 ? rank - 1 : rank - 2))
      return refuse("it sums over the token axis");
    if (i == 1 && *s.axis(i) == rank - 1)
      return refuse("the columns of the second matrix are tokens");
    const int axis = *s.axis(i) + result - rank;
    if (found && *found != axis) return refuse("token axes of both matrices do not align");
    found = axis;
  }
  // A matrix without tokens must not vary along the token axis.
  for (size_t i = 0; i < 2 && *found < result - 2; ++i) {
    const int own = *found - (result - s.rank(i));
    if (s.axis(i) || own < 0) continue;
    if (!(s.dims(i)[static_cast<size_t>(own)] == Dim(1))) {
      return refuse("a matrix without tokens spans the token axis");
    }
  }
  return {found, ""};
}

Verdict gemm(const Step& s) {
  if (std::get<bool>(*find_attribute(s.instruction().attributes(), "trans_a")))
    return refuse("it sums over the token axis");
  return matmul(s);
}

Verdict gather(const Step& s) {
  const auto* attribute = find_attribute(s.instruction().attributes(), "axis");
  const int gathered = s.axis_attribute(attribute != nullptr ? "axis" : "gather_axis", s.rank(0));
  if (s.axis(0) && s.axis(1)) return refuse("both data and indices have token axes");
  if (s.axis(1)) return {gathered + *s.axis(1), ""};
  if (*s.axis(0) == gathered) return refuse("it gathers along the token axis");
  return {*s.axis(0) < gathered ? *s.axis(0) : *s.axis(0) + s.rank(1) - 1, ""};
}

// The token axis of data and indices must agree; along the gathered axis only indices may have it.
Verdict gather_elements(const Step& s) {
  if (!s.axis(1)) return refuse("it gathers along the token axis");
  const bool along = *s.axis(1) == s.axis_attribute("axis", s.rank(0));
  if (along ? s.axis(0).has_value() : s.axis(0) != s.axis(1)) {
    return refuse("both data and indices have token axes");
  }
  return {s.axis(1), ""};
}

// Tokens are a leading axis of the indices, or an axis of the data that indices do not address.
Verdict gather_nd(const Step& s) {
  const auto depth = s.dims(1).back().constant();
  if (s.integer("batch_dims") != 0 || !depth)
    return refuse("batch_dims or the index depth is not supported");
  if (s.axis(0) && s.axis(1)) return refuse("both data and indices have token axes");
  const int places = s.rank(1) - 1;
  if (s.axis(1)) {
    return *s.axis(1) < places ? Verdict{s.axis(1), ""}
                               : refuse("coordinates lie along the token axis");
  }
  if (*s.axis(0) < *depth) return refuse("it gathers along the token axis");
  return {places + *s.axis(0) - static_cast<int>(*depth), ""};
}

// The token axis of data and updates follows the axes that indices address.
Verdict scatter_nd(const Step& s) {
  const auto depth = s.dims(1).back().constant();
  if (s.axis(1) || !s.axis(0) || !s.axis(2) || !depth)
    return refuse("indices have a token axis, or data or updates have none");
  const int64_t rest = *s.axis(0) - *depth;
  if (rest < 0 || *s.axis(2) != s.rank(1) - 1 + rest)
    return refuse("it writes along the token axis");
  return {s.axis(0), ""};
}

Verdict transpose(const Step& s) {
  const auto& order =
      std::get<Integers>(*find_attribute(s.instruction().attributes(), "permutation"));
  if (order.empty()) return {s.rank(0) - 1 - *s.axis(0), ""};
  return {static_cast<int>(std::ranges::find(order, int64_t{*s.axis(0)}) - order.begin()), ""};
}

// The result's token axis has the same product of sizes before it. Later axes may be merged into it
// or split from it.
Verdict reshape(const Step& s) {
  if (!s.axis(0)) return refuse("the new shape has a token axis");
  const auto& from = s.dims(0);
  const auto& to = *s.instruction().result()->type().dims;
  const auto product_before = [](const std::vector<Dim>& dims, int axis) {
    Dim product = 1;
    for (int i = 0; i < axis; ++i) product = product * dims[static_cast<size_t>(i)];
    return product;
  };
  const Dim before = product_before(from, *s.axis(0));
  for (int axis = 0; axis < static_cast<int>(to.size()); ++axis) {
    const bool there = !(s.per_token(to[static_cast<size_t>(axis)]) == Dim(0));
    if (there && product_before(to, axis) == before) return {axis, ""};
  }
  return refuse("it merges the token axis with axes before it");
}

Verdict expand(const Step& s) {
  if (!s.axis(0)) return refuse("the shape operand has a token axis");
  const auto& to = *s.instruction().result()->type().dims;
  const int axis = *s.axis(0) + static_cast<int>(to.size()) - s.rank(0);
  if (!(to[static_cast<size_t>(axis)] == s.dims(0)[static_cast<size_t>(*s.axis(0))])) {
    return refuse("it repeats tokens");
  }
  return {axis, ""};
}

Verdict concat(const Step& s) {
  const int joined = s.axis_attribute("axis", s.rank(0));
  for (size_t i = 0; i < s.count(); ++i) {
    if (!s.axis(i) || *s.axis(i) != *s.axis(0))
      return refuse("token axes of the operands do not align");
  }
  if (joined == *s.axis(0)) return refuse("it concatenates along the token axis");
  return {s.axis(0), ""};
}

Verdict slice(const Step& s) {
  if (!s.axis(0) || !s.fixed_from(1)) return refuse("its bounds have a token axis");
  const auto& elements =
      s.operand(3) == nullptr ? std::optional<std::vector<Dim>>() : s.operand(3)->elements();
  if (s.operand(3) != nullptr && !elements) return refuse("its axes are not constant");
  const size_t cut = elements ? elements->size() : static_cast<size_t>(s.rank(0));
  for (size_t i = 0; i < cut; ++i) {
    int64_t axis = static_cast<int64_t>(i);
    if (elements) axis = (*elements)[i].constant().value_or(*s.axis(0));
    if ((axis < 0 ? axis + s.rank(0) : axis) == *s.axis(0))
      return refuse("it slices the token axis");
  }
  return {s.axis(0), ""};
}

Verdict reduce(const Step& s) {
  if (!s.axis(0) || !s.fixed_from(1)) return refuse("its axes have a token axis");
  if (s.operand(1) == nullptr || !s.operand(1)->elements())
    return refuse("its axes are not constant");
  int removed = 0;
  for (const Dim& element : *s.operand(1)->elements()) {
    const int64_t given = element.constant().value_or(*s.axis(0));
    const int64_t axis = given < 0 ? given + s.rank(0) : given;
    if (axis == *s.axis(0)) return refuse("it reduces the token axis");
    removed += axis < *s.axis(0) ? 1 : 0;
  }
  const bool kept = std::get<bool>(*find_attribute(s.instruction().attributes(), "keep_dims"));
  return {*s.axis(0) - (kept ? 0 : removed), ""};
}

// x [b, heads, tokens, size] or [b, tokens, columns]; positions with tokens last, or cos/sin caches
// per token [b, tokens, size].
Verdict rotary(const Step& s) {
  const int axis = s.rank(0) == 4 ? 2 : 1;
  if (s.axis(0) != axis || !s.single(0)) return refuse("the token axis is not the sequence axis");
  for (size_t i = 1; i < s.count(); ++i) {
    const bool table =
        i <= 2 && s.operand(i) != nullptr && s.rank(i) == 3 && s.operand(3) == nullptr;
    if (s.axis(i) && *s.axis(i) != (table ? 1 : s.rank(i) - 1))
      return refuse("the token axis of positions is not their sequence axis");
  }
  return {axis, ""};
}

Verdict experts(const Step& s) {
  if (!s.axis(0) || *s.axis(0) != s.rank(0) - 2 || s.axis(1) != 0) {
    return refuse("the token axis is not the axis of tokens");
  }
  return {s.axis(0), ""};
}

// Sequence operators: the token axis is the sequence axis of operands and results.
Verdict sequence(const Step& s, int axis) {
  for (size_t i = 0; i < s.count(); ++i) {
    const bool positions = s.operand(i) != nullptr && s.axis(i) && s.rank(i) == 2;
    if (s.axis(i) && (*s.axis(i) != (positions ? 1 : axis) || !s.single(i))) {
      return refuse("the token axis is not the sequence axis");
    }
  }
  return {axis, ""};
}
Verdict sequence_tokens(const Step& s) { return sequence(s, 1); }
Verdict sequence_conv(const Step& s) {
  const auto is = [&](std::string_view flag) {
    return std::get<bool>(*find_attribute(s.instruction().attributes(), flag));
  };
  return sequence(s, is("channels_last") || is("rows_first") ? 1 : 2);
}

struct Rule {
  std::string_view op;
  Verdict (*apply)(const Step& s);
};
constexpr Rule kRules[] = {
    {"cast", elementwise},
    {"clip", elementwise},
    {"concat", concat},
    {"dropout", elementwise},
    {"expand", expand},
    {"gated_rms_norm", last_axis},
    {"gather", gather},
    {"gather_block_quantized", gather},
    {"gather_elements", gather_elements},
    {"gather_nd", gather_nd},
    {"gelu", elementwise},
    {"gemm", gemm},
    {"identity", elementwise},
    {"layer_normalization", normalise_from_axis},
    {"linear_attention_gate", last_axis},
    {"log_softmax", along_axis},
    {"lp_normalization", along_axis},
    {"matmul", matmul},
    {"matmul_n_bits", matmul},
    {"moe", experts},
    {"mrotary_embedding", rotary},
    {"qmoe", experts},
    {"reduce_max", reduce},
    {"reduce_mean", reduce},
    {"reduce_sum", reduce},
    {"reduce_sum_square", reduce},
    {"reshape", reshape},
    {"rms_normalization", normalise_from_axis},
    {"rotary_embedding", rotary},
    {"scatter_nd", scatter_nd},
    {"sequence_attention", sequence_tokens},
    {"sequence_conv", sequence_conv},
    {"sequence_linear_attention", sequence_tokens},
    {"simplified_layer_normalization", normalise_from_axis},
    {"skip_layer_normalization", last_axis},
    {"skip_simplified_layer_normalization", last_axis},
    {"slice", slice},
    {"softmax", along_axis},
    {"split", along_axis},
    {"squeeze", reshape},
    {"swiglu", elementwise},
    {"tile", expand},
    {"top_k", along_axis},
    {"transpose", transpose},
    {"unsqueeze", reshape},
    {"where", elementwise},
};

Verdict judge(const Step& s) {
  for (const auto& result : s.instruction().results()) {
    if (!result.type().is_tensor() || !result.type().is_ranked())
      return refuse("a result has no rank");
  }
  if (s.instruction().op().formula != nullptr) return elementwise(s);
  const auto* rule = std::ranges::find(kRules, s.instruction().op().name, &Rule::op);
  if (rule == std::end(kRules)) return refuse("the op has no token-axis rule");
  return rule->apply(s);
}

// Values computed from sizes alone, such as a range, distinguish tokens by position.
bool depends_on(const Dim& dim, const std::string& symbol) {
  std::vector<SymbolRef> symbols;
  dim.collect_symbols(symbols);
  return std::ranges::any_of(symbols, [&](const SymbolRef& s) { return s->name == symbol; });
}

bool depends_on(const Instruction& instruction, const std::string& symbol) {
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr || !operand->elements()) continue;
    for (const Dim& dim : *operand->elements()) {
      if (depends_on(dim, symbol)) return true;
    }
  }
  for (const auto& result : instruction.results()) {
    if (!result.type().is_tensor() || !result.type().is_ranked()) continue;
    for (const Dim& dim : *result.type().dims) {
      if (depends_on(dim, symbol)) return true;
    }
  }
  return false;
}

}  // namespace

TokenAxes trace_tokens(const Module& main, const std::map<const Value*, int>& inputs) {
  TokenAxes flow;
  flow.axes = inputs;
  const auto& [first, axis] = *inputs.begin();
  const Dim extent = (*first->type().dims)[static_cast<size_t>(axis)];
  const SymbolRef symbol = extent.as_symbol();
  for (const auto& instruction : main.instructions()) {
    const Step step(*instruction, flow.axes, extent);
    bool any = false;
    for (size_t i = 0; i < step.count(); ++i) any = any || step.axis(i).has_value();
    if (!any) {
      const bool known = std::ranges::all_of(instruction->results(), [](const Value& result) {
        return result.elements().has_value();
      });
      if (!known && symbol != nullptr && depends_on(*instruction, symbol->name)) {
        flow.blocking = instruction.get();
        flow.reason = "it depends on the number of tokens";
        return flow;
      }
      continue;
    }
    // Sizes of the token axis are symbolic: inference evaluates these ops.
    const std::string_view name = instruction->op().name;
    if (name == "shape" || name == "size") continue;
    const Verdict verdict = judge(step);
    if (!verdict.axis) {
      flow.blocking = instruction.get();
      flow.reason = verdict.reason;
      return flow;
    }
    for (const Value& result : instruction->results()) flow.axes[&result] = *verdict.axis;
  }
  return flow;
}

}  // namespace lathe
