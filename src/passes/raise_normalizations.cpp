// SPDX-License-Identifier: MIT
#include "passes/raise_normalizations.h"

#include <algorithm>

#include "ir/ops.h"
#include "ir/rule.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

bool reduces_last_axis(const Instruction& reduction) {
  const Type& x = reduction.operands()[0]->type();
  return x.is_ranked() && kept_axes(reduction) == std::vector<int64_t>{x.rank() - 1};
}

// True if the value has the last axis of x and no other.
bool is_row_of(const Value& value, const Type& x) {
  const Type& type = value.type();
  if (!type.is_ranked() || type.rank() < 1 || type.rank() > x.rank()) return false;
  if (!(type.dims->back() == x.dims->back())) return false;
  return std::all_of(type.dims->begin(), type.dims->end() - 1,
                     [](const Dim& dim) { return dim == Dim(1); });
}

// The number added to the variance; none without an addition: exporters drop small ones.
std::optional<double> epsilon_of(const Match& match, bool has_epsilon) {
  return has_epsilon ? number_of(*match["epsilon"]) : 0;
}

bool has_f32_row(const Match& match) {
  const Type& x = match.type("x");
  return x.is_ranked() && x.rank() > 0 && x.element == ElementType::f32 &&
         is_row_of(*match["scale"], x) && reduces_last_axis(match.instruction("variance"));
}

// The normalisation of the last axis with the epsilon of `like`.
Value* normalized_like(Match& match, const Op& op, const std::vector<Value*>& operands,
                       const Instruction& like) {
  return match.b
      .add(op, operands,
           {{"axis", int64_t{-1}}, {"epsilon", *find_attribute(like.attributes(), "epsilon")}})
      ->result();
}

bool normalizes_last_axis(const Instruction& normalized, const Type& x) {
  const auto axis = std::get<int64_t>(*find_attribute(normalized.attributes(), "axis"));
  return x.is_ranked() && (axis == -1 || axis == x.rank() - 1);
}

// The RMS normalisation of a centred last axis.
Value* raise_layer_normalization(Match& match, bool has_bias) {
  const Instruction& normalized = match.instruction("normalized");
  const Type& x = match.type("x");
  const bool fits = normalizes_last_axis(normalized, x) &&
                    reduces_last_axis(match.instruction("mean")) && is_row_of(*match["scale"], x) &&
                    (!has_bias || is_row_of(*match["bias"], x));
  if (!fits) return nullptr;
  std::vector<Value*> operands{match["x"], match["scale"]};
  if (has_bias) operands.push_back(match["bias"]);
  return normalized_like(match, ops::layer_normalization, operands, normalized);
}

// A normalisation by ones, scaled.
Value* replace_ones(Match& match) {
  const Instruction& normalized = match.instruction("normalized");
  const bool fits = normalizes_last_axis(normalized, match.type("x")) &&
                    is_row_of(*match["scale"], match.type("x"));
  if (!fits) return nullptr;
  return normalized_like(match, ops::rms_normalization, {match["x"], match["scale"]}, normalized);
}

Value* raise_rms_normalization(Match& match, bool has_epsilon) {
  const std::optional<double> epsilon = epsilon_of(match, has_epsilon);
  if (!has_f32_row(match) || !epsilon) return nullptr;
  return match.b(ops::rms_normalization, {match["x"], match["scale"]},
                 {{"axis", int64_t{-1}}, {"epsilon", *epsilon}});
}

// Without factors: by ones, at most this many.
constexpr int64_t kMostOnes = 1 << 20;
Value* raise_plain_normalization(Match& match, bool has_epsilon) {
  const std::optional<double> epsilon = epsilon_of(match, has_epsilon);
  const Type& x = match.type("x");
  const bool fits = x.is_ranked() && x.rank() > 0 && x.element == ElementType::f32 && epsilon &&
                    x.dims->back().constant().value_or(kMostOnes) < kMostOnes &&
                    reduces_last_axis(match.instruction("variance"));
  if (!fits) return nullptr;
  const Tensor ones(ElementType::f32, {*x.dims->back().constant()});
  std::fill_n(ones.as<float>(), ones.count(), 1.0F);
  return match.b(ops::rms_normalization, {match["x"], match.b.literal(ones)},
                 {{"axis", int64_t{-1}}, {"epsilon", *epsilon}});
}

// One axis, not the last, along which a reduction keeps axes: channels before positions.
std::optional<size_t> inner_axis_of(const Instruction& reduction) {
  const std::vector<int64_t> axes = kept_axes(reduction);
  const bool inner =
      axes.size() == 1 && axes[0] >= 0 && axes[0] + 1 < reduction.operands()[0]->type().rank();
  return inner ? std::optional(static_cast<size_t>(axes[0])) : std::nullopt;
}

// True if the value has one element for each index of this axis of x.
bool is_of_axis(const Value& value, const Type& x, size_t axis) {
  const Type& type = value.type();
  std::vector<Dim> column(x.dims->size() - axis, Dim(1));
  column[0] = (*x.dims)[axis];
  if (!type.is_ranked() || type.element != x.element || type.rank() < std::ssize(column)) {
    return false;
  }
  const auto first = type.dims->end() - std::ssize(column);
  return std::equal(first, type.dims->end(), column.begin()) &&
         std::all_of(type.dims->begin(), first, [](const Dim& dim) { return dim == Dim(1); });
}

// (x - mean) / root · scale + bias over the channels of images: a normalisation of the last axis of
// x with its channels last, which strides express.
Value* raise_channel_normalization(Match& match, bool has_epsilon) {
  const Type& x = match.type("x");
  const std::optional<double> epsilon = epsilon_of(match, has_epsilon);
  const std::optional<size_t> axis = inner_axis_of(match.instruction("variance"));
  if (!x.is_ranked() || x.element != ElementType::f32 || !epsilon || !axis ||
      inner_axis_of(match.instruction("mean")) != axis || !(*x.dims)[*axis].is_constant()) {
    return nullptr;
  }
  if (!is_of_axis(*match["scale"], x, *axis) || !is_of_axis(*match["bias"], x, *axis)) {
    return nullptr;
  }
  Builder& b = match.b;
  const std::vector<Dim> vector{(*x.dims)[*axis]};
  std::vector<int64_t> last, back;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != static_cast<int64_t>(*axis)) last.push_back(i);
    back.push_back(i < static_cast<int64_t>(*axis) ? i : i - 1);
  }
  last.push_back(static_cast<int64_t>(*axis));
  back[*axis] = x.rank() - 1;
  Value* y = b.add(ops::layer_normalization,
                   {b.transpose(match["x"], last), b.reshape(match["scale"], vector),
                    b.reshape(match["bias"], vector)},
                   {{"axis", int64_t{-1}}, {"epsilon", *epsilon}})
                 ->result();
  return b.transpose(y, back);
}

// Undoes reshape(instance_normalization(reshape(x, [n, groups, …])), dims of x).
Value* raise_group_normalization(Match& match) {
  const Type& x = match.type("x");
  const Type& grouped = match.type("grouped");
  const Type& y = match.root().result()->type();
  if (!x.is_ranked() || x.rank() < 3 || !(x == y) || !grouped.is_ranked() || grouped.rank() < 3) {
    return nullptr;
  }
  const std::optional<int64_t> channels = (*x.dims)[1].constant();
  const std::optional<int64_t> groups = (*grouped.dims)[1].constant();
  const bool fits = channels && groups && *groups > 0 && *channels % *groups == 0 &&
                    (*x.dims)[0] == (*grouped.dims)[0];
  if (!fits) return nullptr;
  // One element for each channel, on the axis of channels.
  std::vector<Dim> column(static_cast<size_t>(x.rank() - 1), Dim(1));
  column[0] = *channels;
  std::vector<Value*> operands{match["x"]};
  for (const std::string_view name : {"scale", "bias"}) {
    const Type& own = match.type(name);
    if (!own.is_ranked() || own.element != x.element || own.dims != column) return nullptr;
    operands.push_back(match.b.reshape(match[name], {*channels}));
  }
  const Instruction& normalized = match.instruction("normalized");
  return match.b(
      ops::group_normalization, operands,
      {{"num_groups", *groups}, {"epsilon", *find_attribute(normalized.attributes(), "epsilon")}});
}

Pattern centred_x() {
  const Pattern x = value("x");
  return x - op(ops::reduce_mean, {x, value("axes")}).named("mean");
}

Pattern centred_norm() {
  const Pattern centred = centred_x();
  return op(ops::rms_normalization, {centred, value("scale")}).named("normalized");
}

void add_normalizations(std::vector<Rule>& rules) {
  const Pattern x = value("x"), scale = value("scale");
  rules.emplace_back("raise_layer_normalization", centred_norm() + value("bias"),
                     [](Match& match) { return raise_layer_normalization(match, true); });
  rules.emplace_back("scale_normalization",
                     op(ops::rms_normalization, {x, constant(1)}).named("normalized") * scale,
                     replace_ones);
  for (const bool has_epsilon : {true, false}) {
    for (const Pattern& square : {op(ops::pow, {x, constant(2)}), x * x}) {
      const Pattern variance =
          op(ops::reduce_mean, {square, value("square_axes")}).named("variance");
      const Pattern root = op(ops::sqrt, {has_epsilon ? variance + value("epsilon") : variance});
      for (const Pattern& normalized :
           {x / root, x * (constant(1) / root), x * op(ops::reciprocal, {root})}) {
        rules.emplace_back("raise_rms_normalization", normalized * scale, [=](Match& match) {
          return raise_rms_normalization(match, has_epsilon);
        });
        rules.emplace_back("raise_plain_normalization", normalized, [=](Match& match) {
          return raise_plain_normalization(match, has_epsilon);
        });
      }
    }
  }
}

void add_channel_normalizations(std::vector<Rule>& rules) {
  const Pattern centred = centred_x();
  for (const bool has_epsilon : {true, false}) {
    for (const Pattern& square : {op(ops::pow, {centred, constant(2)}), centred * centred}) {
      const Pattern variance =
          op(ops::reduce_mean, {square, value("square_axes")}).named("variance");
      const Pattern root = op(ops::sqrt, {has_epsilon ? variance + value("epsilon") : variance});
      for (const Pattern& normalized : {centred / root, centred * op(ops::reciprocal, {root})}) {
        rules.emplace_back(
            "raise_channel_normalization", normalized * value("scale") + value("bias"),
            [=](Match& match) { return raise_channel_normalization(match, has_epsilon); });
      }
    }
  }
}

RuleTable make_rules() {
  // Models that are exported for several types contain such casts.
  std::vector<Rule> rules{{"cast_to_own_type", op(ops::cast, {value("x")}), value("x")}};
  add_normalizations(rules);
  add_channel_normalizations(rules);
  const Pattern grouped = op(ops::reshape, {value("x"), value("groups")}).named("grouped");
  const Pattern normalized =
      op(ops::instance_normalization, {grouped, constant(1), constant(0)}).named("normalized");
  const Pattern whole = op(ops::reshape, {normalized, value("dims")});
  rules.emplace_back("raise_group_normalization", whole * value("scale") + value("bias"),
                     raise_group_normalization);
  return RuleTable(std::move(rules));
}

bool raise_normalizations_of(Program& program) {
  static const RuleTable rules = make_rules();
  // Later, as a bias may follow.
  static const RuleTable without_bias(
      {{"raise_layer_normalization", centred_norm(),
        [](Match& match) { return raise_layer_normalization(match, false); }}});
  const bool raised = rules.apply(program);
  return without_bias.apply(program) || raised;
}

}  // namespace

const Pass raise_normalizations{
    .name = "raise_normalizations",
    .doc = "Recognises layer, RMS and group normalisations written out as arithmetic.",
    .run = raise_normalizations_of,
};

}  // namespace lathe
