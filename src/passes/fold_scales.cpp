// SPDX-License-Identifier: MIT
#include "passes/fold_scales.h"

#include "ir/ops.h"
#include "ir/rule.h"
#include "ops/support/symbolic.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

enum ConvOperand : size_t { kX, kW, kBias };

bool is_constant_operand(const Instruction& instruction, size_t i) {
  return i < instruction.operands().size() && instruction.operands()[i] != nullptr &&
         is_constant(*instruction.operands()[i]);
}

// Instructions of a fold stay constants: small ones are evaluated by fold_constants, the others
// when the plan is made.
Value* constant(Builder& b, const Op& op, std::vector<Value*> operands) {
  Instruction* instruction = b.add(op, std::move(operands));
  instruction->set_deferred(true);
  return instruction->result();
}

Value* constant_reshape(Builder& b, Value* x, std::vector<int64_t> dims) {
  return constant(b, ops::reshape, {x, b.integers(dims)});
}

// [channels, 1, …] with `trailing` ones.
Value* column(Builder& b, Value* channels, int trailing) {
  std::vector<int64_t> dims(static_cast<size_t>(trailing) + 1, 1);
  dims[0] = -1;
  return constant_reshape(b, channels, dims);
}

Value* fold_statistics(Match& match) {
  const Instruction& norm = match.root();
  const Type& x = norm.operands()[kX]->type();
  const bool training = std::get<bool>(*find_attribute(norm.attributes(), "training_mode"));
  if (training || !x.is_ranked() || x.rank() < 2 || x.element != ElementType::f32) return nullptr;
  for (size_t i = 1; i < 5; ++i) {
    if (!is_constant_operand(norm, i) || norm.operands()[i]->type().element != ElementType::f32) {
      return nullptr;
    }
  }
  for (int i = 1; i < 3; ++i) {
    if (!norm.result(i)->uses().empty()) return nullptr;
  }
  Builder& b = match.b;
  Value *scale = norm.operands()[1], *bias = norm.operands()[2], *mean = norm.operands()[3],
        *variance = norm.operands()[4];
  Value* epsilon =
      b.scalar(x.element, std::get<double>(*find_attribute(norm.attributes(), "epsilon")));
  Value* deviation = constant(b, ops::sqrt, {constant(b, ops::add, {variance, epsilon})});
  Value* factor = constant(b, ops::div, {scale, deviation});
  Value* summand = constant(b, ops::sub, {bias, constant(b, ops::mul, {mean, factor})});
  const int trailing = x.rank() - 2;
  return b(ops::add, {b(ops::mul, {norm.operands()[kX], column(b, factor, trailing)}),
                      column(b, summand, trailing)});
}

// The channels of a constant that broadcasts along axis 1 of the result alone; -1 for one number.
std::optional<int64_t> channels_of(const Value& value, const Type& result) {
  if (!is_constant(value) || !value.type().is_ranked() || value.type().rank() > result.rank() ||
      !(value.type().element == result.element)) {
    return std::nullopt;
  }
  const int skipped = result.rank() - value.type().rank();
  int64_t channels = -1;
  for (int axis = 0; axis < value.type().rank(); ++axis) {
    const Dim& dim = (*value.type().dims)[static_cast<size_t>(axis)];
    if (dim == Dim(1)) continue;
    if (axis + skipped != 1 || !(dim == (*result.dims)[1]) || !dim.is_constant()) {
      return std::nullopt;
    }
    channels = *dim.constant();
  }
  return channels;
}

// The axis of the weights that the channels of the result are; none if there is no such axis.
std::optional<int> output_axis(const Instruction& anchor) {
  const auto has = [&](std::string_view name, const Attribute& expected) {
    const Attribute* found = find_attribute(anchor.attributes(), name);
    return found != nullptr && *found == expected;
  };
  if (anchor.op() == ops::conv) return 0;
  if (anchor.op() == ops::conv_transpose) return 1;
  if (anchor.op() == ops::gemm && has("beta", 1.0)) return has("trans_b", true) ? 0 : 1;
  return std::nullopt;
}

// A convolution or product that nothing else reads, with constant weights and a constant bias of
// one element per channel, or none.
Instruction* folding_anchor(Value& value, const Type& result) {
  Instruction* conv = value.definition();
  if (conv == nullptr || !output_axis(*conv) || value.uses().size() != 1 || !result.is_ranked() ||
      !(value.type() == result) || value.type().element != ElementType::f32 ||
      !is_constant_operand(*conv, kW)) {
    return nullptr;
  }
  const bool has_bias = conv->operands().size() > kBias && conv->operands()[kBias] != nullptr;
  const bool folds = !has_bias || (is_constant_operand(*conv, kBias) &&
                                   conv->operands()[kBias]->type().rank() == 1 &&
                                   (*conv->operands()[kBias]->type().dims)[0] == (*result.dims)[1]);
  return folds ? conv : nullptr;
}

// A vector with one element per output channel.
Value* per_output(Builder& b, Value* constants, int64_t channels, int64_t outputs) {
  if (channels < 0) {
    Value* one = constant_reshape(b, constants, {1});
    return constant(b, ops::expand, {one, b.integers({outputs})});
  }
  return constant_reshape(b, constants, {outputs});
}

// Weights times a factor per output; null if their shape is not known.
Value* scaled_weights(Builder& b, const Instruction& anchor, Value* each) {
  Value* w = anchor.operands()[kW];
  const int axis = *output_axis(anchor);
  const Attribute* group = find_attribute(anchor.attributes(), "group");
  if (anchor.op() != ops::conv_transpose || *group == Attribute{int64_t{1}}) {
    return constant(b, ops::mul, {w, column(b, each, w->type().rank() - 1 - axis)});
  }
  // [channels, outputs / groups, …]: each group of channels has outputs of its own.
  const auto dims = constant_values(*w->type().dims);
  if (!dims) return nullptr;
  const auto groups = std::get<int64_t>(*group);
  std::vector<int64_t> split = *dims, factors(dims->size() + 1, 1);
  split[0] /= groups;
  split.insert(split.begin(), groups);
  factors[0] = groups;
  factors[2] = (*dims)[1];
  Value* scaled =
      constant(b, ops::mul, {constant_reshape(b, w, split), constant_reshape(b, each, factors)});
  return constant_reshape(b, scaled, *dims);
}

Value* fold_into_anchor(Match& match) {
  const Instruction& root = match.root();
  const Type& result = root.result()->type();
  for (size_t i = 0; i < 2; ++i) {
    Value& value = *root.operands()[i];
    Value* other = root.operands()[1 - i];
    const Instruction* conv = folding_anchor(value, result);
    if (conv == nullptr) continue;
    const std::optional<int64_t> channels = channels_of(*other, result);
    if (!channels) continue;
    const std::optional<int64_t> outputs = (*result.dims)[1].constant();
    if (!outputs) return nullptr;
    Builder& b = match.b;
    Value* each = per_output(b, other, *channels, *outputs);
    Value* w = conv->operands()[kW];
    Value* bias = conv->operands().size() > kBias ? conv->operands()[kBias] : nullptr;
    if (root.op() == ops::mul) {
      w = scaled_weights(b, *conv, each);
      if (w == nullptr) return nullptr;
      if (bias != nullptr) bias = constant(b, ops::mul, {bias, each});
    } else {
      bias = bias == nullptr ? each : constant(b, ops::add, {bias, each});
    }
    return b(conv->op(), {conv->operands()[kX], w, bias}, conv->attributes());
  }
  return nullptr;
}

const RuleTable& scale_rules() {
  static const Pattern x = value("x"), y = value("y");
  static const RuleTable table({
      {"fold_scale", x * y, fold_into_anchor},
      {"fold_summand", x + y, fold_into_anchor},
  });
  return table;
}

// A pattern requires one result; normalisations have three.
bool fold_normalizations(Program& program) {
  bool changed = false;
  for (const auto& module : program.modules()) {
    for (auto at = module->instructions().begin(); at != module->instructions().end();) {
      Instruction& instruction = **at++;
      if (instruction.op() != ops::batch_normalization) continue;
      Builder builder(*module, &instruction);
      builder.set_origins(instruction.origins());
      Match match(instruction, builder);
      Value* folded = fold_statistics(match);
      if (folded == nullptr || !(folded->type() == instruction.result()->type())) continue;
      module->replace_uses(instruction.result(), folded);
      module->erase(&instruction);
      changed = true;
    }
  }
  return changed;
}

}  // namespace

const Pass fold_scales{
    .name = "fold_scales",
    .doc = "Folds batch normalisations and channel factors into convolutions and products.",
    .run =
        [](Program& program) {
          const bool normalizations = fold_normalizations(program);
          return scale_rules().apply(program) || normalizations;
        },
};

}  // namespace lathe
