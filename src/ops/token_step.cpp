// SPDX-License-Identifier: MIT
#include "ops/token_step.h"

#include <algorithm>

#include "ops/index_map.h"

namespace lathe {

TokenAxis not_token_wise(std::string reason) { return {std::nullopt, std::move(reason)}; }

int64_t TokenStep::integer(std::string_view name) const {
  return std::get<int64_t>(*find_attribute(instruction_.attributes(), name));
}

bool TokenStep::boolean(std::string_view name) const {
  return std::get<bool>(*find_attribute(instruction_.attributes(), name));
}

int TokenStep::axis_attribute(std::string_view name, int rank) const {
  const int64_t axis = integer(name);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Dim TokenStep::per_token(const Dim& extent) const {
  if (extent == tokens_) return 1;
  const Dim count = Dim::floor_div(extent, tokens_);
  return count * tokens_ == extent ? count : Dim(0);
}

bool TokenStep::fixed_from(size_t first) const {
  for (size_t i = first; i < count(); ++i) {
    if (axis(i)) return false;
  }
  return true;
}

namespace {

// Whether the tokens of one axis of a result are those of all operands that its elements come from.
class MappedTokens {
 public:
  MappedTokens(const TokenStep& step, const SymbolicMap& map) : step_(step), map_(map) {}

  // index[axis] = count * token + rest
  bool pass_along(int axis) const {
    const Dim count = step_.per_token(map_.result_extent(axis));
    if (count == Dim(0)) return false;
    const int64_t most = count.range().max;
    const Dim token = symbol("$t", kUnbounded);
    const Dim rest = count == Dim(1) ? Dim(0) : symbol("$r", most == kUnbounded ? most : most - 1);
    const std::map<std::string, Dim, std::less<>> split = {
        {map_.variables()[static_cast<size_t>(axis)]->name, token * count + rest}};
    const auto follows = [&](int operand, const SymbolicMap::Coordinates& from) {
      const std::optional<int> own =
          operand < 0 ? std::nullopt : step_.axis(static_cast<size_t>(operand));
      for (size_t i = 0; i < from.size(); ++i) {
        Dim at = from[i].substitute(split);
        if (own == static_cast<int>(i)) {
          const Dim per_token = step_.per_token(map_.extent(operand, *own));
          at = at - token * per_token;
          // The element of the same token, not of one before or after it.
          const bool within =
              less_equal(0, at) == Ternary::yes && less_equal(at, per_token - 1) == Ternary::yes;
          if (!within) return false;
        }
        if (mentions_token(at)) return false;
      }
      return true;
    };
    return std::ranges::all_of(map_.reads(),
                               [&](const SymbolicMap::Read& read) {
                                 return follows(read.operand, read.from) &&
                                        std::ranges::none_of(read.conditions, [&](const Dim& dim) {
                                          return mentions_token(dim.substitute(split));
                                        });
                               }) &&
           std::ranges::all_of(map_.elements(), [&](const SymbolicMap::Element& element) {
             return follows(element.operand, element.from);
           });
  }

 private:
  static Dim symbol(std::string name, int64_t most) {
    return SymbolRef(
        std::make_shared<Symbol>(Symbol{std::move(name), SymbolKind::bound, {0, most}, {}}));
  }
  static bool mentions_token(const Dim& dim) {
    std::vector<SymbolRef> symbols;
    dim.collect_symbols(symbols);
    return std::ranges::any_of(symbols, [](const SymbolRef& s) { return s->name == "$t"; });
  }

  const TokenStep& step_;
  const SymbolicMap& map_;
};

TokenAxis mapped_tokens(const TokenStep& s) {
  const Instruction& instruction = s.instruction();
  std::optional<int> found;
  for (int result = 0; result < static_cast<int>(instruction.results().size()); ++result) {
    const SymbolicMap map(instruction, result);
    if (!map.is_known()) return not_token_wise("it moves elements by sizes that are not constant");
    const MappedTokens tokens(s, map);
    int axis = 0;
    while (axis < map.result_rank() && !tokens.pass_along(axis)) ++axis;
    if (axis == map.result_rank() || (found && *found != axis))
      return not_token_wise("it moves elements along the token axis");
    found = axis;
  }
  return {found};
}

}  // namespace

TokenAxis tokens_of(const TokenStep& s) {
  const Op& op = s.instruction().op();
  if (op.formula != nullptr) return elementwise_tokens(s);
  if (op.map) return mapped_tokens(s);
  if (op.tokens != nullptr) return op.tokens(s);
  return not_token_wise("the op has no token-axis rule");
}

TokenAxis elementwise_tokens(const TokenStep& s) {
  const int rank = s.instruction().result()->type().rank();
  std::optional<int> found;
  for (size_t i = 0; i < s.count(); ++i) {
    if (!s.axis(i)) continue;
    const int axis = *s.axis(i) + rank - s.rank(i);
    if (found && *found != axis) return not_token_wise("token axes of two operands do not align");
    found = axis;
  }
  // An operand without tokens must not vary along the token axis: it would depend on positions.
  for (size_t i = 0; i < s.count(); ++i) {
    const int own = found.value_or(0) - (rank - (s.operand(i) == nullptr ? rank : s.rank(i)));
    if (s.operand(i) == nullptr || s.axis(i) || own < 0) continue;
    if (s.dims(i)[static_cast<size_t>(own)].constant() != 1) {
      return not_token_wise("an operand without tokens spans the token axis");
    }
  }
  return {found};
}

TokenAxis tokens_before(const TokenStep& s, int first) {
  if (!s.axis(0)) return not_token_wise("an operand other than the first has a token axis");
  if (!s.fixed_from(1)) {
    const TokenAxis all = elementwise_tokens(s);
    if (!all.axis) return all;
  }
  if (*s.axis(0) >= first) return not_token_wise("it mixes elements along the token axis");
  return {s.axis(0)};
}

TokenAxis tokens_before_last_axis(const TokenStep& s) { return tokens_before(s, s.rank(0) - 1); }

TokenAxis tokens_before_axis_attribute(const TokenStep& s) {
  return tokens_before(s, s.axis_attribute("axis", s.rank(0)));
}

TokenAxis tokens_beside_axis_attribute(const TokenStep& s) {
  if (!s.axis(0) || !s.fixed_from(1))
    return not_token_wise("an operand other than the first has a token axis");
  if (*s.axis(0) == s.axis_attribute("axis", s.rank(0)))
    return not_token_wise("it mixes elements along the token axis");
  return {s.axis(0)};
}

TokenAxis matmul_tokens(const TokenStep& s) {
  const int result = s.instruction().result()->type().rank();
  const Attribute* transposed = find_attribute(s.instruction().attributes(), "trans_a");
  if (transposed != nullptr && std::get<bool>(*transposed))
    return not_token_wise("it sums over the token axis");
  if (s.count() > 2 && !s.fixed_from(2)) return not_token_wise("operand C has a token axis");
  std::optional<int> found;
  for (size_t i = 0; i < 2; ++i) {
    if (!s.axis(i)) continue;
    const int rank = s.rank(i);
    if (rank < 2 || *s.axis(i) == (i == 0 ? rank - 1 : rank - 2))
      return not_token_wise("it sums over the token axis");
    if (i == 1 && *s.axis(i) == rank - 1)
      return not_token_wise("the columns of the second matrix are tokens");
    const int axis = *s.axis(i) + result - rank;
    if (found && *found != axis) return not_token_wise("token axes of both matrices do not align");
    found = axis;
  }
  // A matrix without tokens must not vary along the token axis.
  for (size_t i = 0; i < 2 && *found < result - 2; ++i) {
    const int own = *found - (result - s.rank(i));
    if (s.axis(i) || own < 0) continue;
    if (!(s.dims(i)[static_cast<size_t>(own)] == Dim(1))) {
      return not_token_wise("a matrix without tokens spans the token axis");
    }
  }
  return {found};
}

TokenAxis reduced_tokens(const TokenStep& s) {
  if (!s.axis(0) || !s.fixed_from(1)) return not_token_wise("its axes have a token axis");
  if (s.operand(1) == nullptr || !s.operand(1)->elements())
    return not_token_wise("its axes are not constant");
  int removed = 0;
  for (const Dim& element : *s.operand(1)->elements()) {
    const int64_t given = element.constant().value_or(*s.axis(0));
    const int64_t axis = given < 0 ? given + s.rank(0) : given;
    if (axis == *s.axis(0)) return not_token_wise("it reduces the token axis");
    removed += axis < *s.axis(0) ? 1 : 0;
  }
  const bool kept = s.boolean("keep_dims");
  return {*s.axis(0) - (kept ? 0 : removed)};
}

TokenAxis gathered_tokens(const TokenStep& s, std::string_view axis) {
  const int gathered = s.axis_attribute(axis, s.rank(0));
  if (s.axis(0) && s.axis(1)) return not_token_wise("both data and indices have token axes");
  if (s.axis(1)) return {gathered + *s.axis(1)};
  if (*s.axis(0) == gathered) return not_token_wise("it gathers along the token axis");
  return {*s.axis(0) < gathered ? *s.axis(0) : *s.axis(0) + s.rank(1) - 1};
}

TokenAxis rotary_tokens(const TokenStep& s) {
  const int axis = s.rank(0) == 4 ? 2 : 1;
  if (s.axis(0) != axis || !s.single(0))
    return not_token_wise("the token axis is not the sequence axis");
  for (size_t i = 1; i < s.count(); ++i) {
    const bool table =
        i <= 2 && s.operand(i) != nullptr && s.rank(i) == 3 && s.operand(3) == nullptr;
    if (s.axis(i) && *s.axis(i) != (table ? 1 : s.rank(i) - 1))
      return not_token_wise("the token axis of positions is not their sequence axis");
  }
  return {axis};
}

TokenAxis expert_tokens(const TokenStep& s) {
  if (!s.axis(0) || *s.axis(0) != s.rank(0) - 2 || s.axis(1) != 0) {
    return not_token_wise("the token axis is not the axis of tokens");
  }
  return {s.axis(0)};
}

TokenAxis sequence_tokens(const TokenStep& s, int axis) {
  for (size_t i = 0; i < s.count(); ++i) {
    const bool positions = s.operand(i) != nullptr && s.axis(i) && s.rank(i) == 2;
    if (s.axis(i) && (*s.axis(i) != (positions ? 1 : axis) || !s.single(i))) {
      return not_token_wise("the token axis is not the sequence axis");
    }
  }
  return {axis};
}

}  // namespace lathe
