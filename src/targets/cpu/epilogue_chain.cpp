// SPDX-License-Identifier: MIT
#include "targets/cpu/epilogue_chain.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "ir/ops.h"
#include "ops/support/views.h"
#include "targets/cpu/activation_of.h"
#include "targets/cpu/requantisation.h"
#include "targets/region_form.h"

namespace lathe::cpu {
namespace {

using Kind = EpilogueStep::Kind;

struct BinaryOp {
  const Op* op;
  Kind kind;           // the region's value is operand 0
  Kind reversed_kind;  // it is operand 1
};
constexpr std::array kBinary{
    BinaryOp{&ops::add, Kind::add, Kind::add},
    BinaryOp{&ops::sub, Kind::sub, Kind::sub_reversed},
    BinaryOp{&ops::mul, Kind::mul, Kind::mul},
    BinaryOp{&ops::div, Kind::div, Kind::div_reversed},
};

const BinaryOp* binary_of(const Op& op) {
  const auto at = std::ranges::find(kBinary, &op, &BinaryOp::op);
  return at == kBinary.end() ? nullptr : &*at;
}

// The axis of the anchor's result that a GEMM's columns are.
int column_axis(const Instruction& anchor) {
  const bool is_conv = is_any_of(anchor.op(), {&ops::conv, &ops::qlinear_conv});
  return is_conv ? 1 : anchor.result()->type().rank() - 1;
}

enum class Broadcast : uint8_t { scalar, columns, full };

// How a type broadcasts to the result; none if it is not one of the three.
std::optional<Broadcast> broadcast_of(const Type& type, const Type& result, int column) {
  if (!type.is_ranked() || type.rank() > result.rank()) return std::nullopt;
  const int skipped = result.rank() - type.rank();
  bool ones = true, columns = true, full = skipped == 0;
  for (int axis = 0; axis < type.rank(); ++axis) {
    const Dim& own = (*type.dims)[static_cast<size_t>(axis)];
    const Dim& all = (*result.dims)[static_cast<size_t>(axis + skipped)];
    const bool one = own == Dim(1);
    ones &= one;
    columns &= axis + skipped == column ? own == all : one;
    full &= own == all;
  }
  if (ones) return Broadcast::scalar;
  if (columns && column >= skipped) return Broadcast::columns;
  return full ? std::optional(Broadcast::full) : std::nullopt;
}

// Behind a parameter of a region's body: the value outside.
const Value& outside(const Value& value, const Instruction* region) {
  const bool captured = region != nullptr && value.definition() == nullptr;
  return captured ? *region->operands()[static_cast<size_t>(value.index())] : value;
}

bool is_constant_scalar(const Value& value) {
  const Instruction* definition = value.definition();
  return definition != nullptr && definition->literal() != nullptr &&
         !definition->literal()->bindable && definition->literal()->tensor.count() == 1;
}

// A GEMM of f32 whose operands are rounded to bf16.
bool is_widened_product(const Instruction& anchor) {
  return is_any_of(anchor.op(), {&ops::matmul, &ops::gemm}) &&
         anchor.result()->type().element == ElementType::f32 &&
         attribute<std::string>(anchor, "compute_type") == "bf16";
}

std::string why_no_step(const Instruction& anchor, const Instruction& next, int operand,
                        const Instruction* region) {
  if (is_byte_anchor(anchor)) return why_no_requantisation(anchor, next, operand, region);
  const Op& op = next.op();
  if (op == ops::cast && is_widened_product(anchor)) {  // the last step: it changes the type
    const bool narrows = next.operands()[0]->type().element == ElementType::f32 &&
                         next.result()->type().element == ElementType::bf16;
    return narrows ? "" : "it is another cast than from f32 to bf16";
  }
  if (next.result()->type().element != anchor.result()->type().element) return "another type";
  if (activation_of(next)) return "";
  if (op == ops::clip) {
    if (operand != 0) return "it reads the value as a limit";
    for (size_t i = 1; i < next.operands().size(); ++i) {
      const Value* limit = next.operands()[i];
      if (limit != nullptr && !is_constant_scalar(outside(*limit, region))) {
        return "its limits are not constant";
      }
    }
    return "";
  }
  if (binary_of(op) == nullptr) return fmt::format("no epilogue computes {}", op.name);
  const Value* side = next.operands()[operand == 0 ? 1 : 0];
  if (side == nullptr || side == next.operands()[static_cast<size_t>(operand)]) {
    return "it has one operand";
  }
  const ElementType type = side->type().element;
  if (type != anchor.result()->type().element) return "its operands have two types";
  return broadcast_of(side->type(), anchor.result()->type(), column_axis(anchor))
             ? ""
             : "its other operand does not broadcast along rows";
}

}  // namespace

std::string EpilogueChain::why_no_anchor(const Instruction& anchor) {
  if (is_byte_anchor(anchor)) return "";
  if (!is_any_of(anchor.op(), {&ops::conv, &ops::matmul, &ops::gemm})) {
    return fmt::format("{} takes no epilogue", anchor.op().name);
  }
  const Type& type = anchor.result()->type();
  const bool floats = type.element == ElementType::f32 || type.element == ElementType::bf16 ||
                      type.element == ElementType::f16;
  if (!floats) return fmt::format("results are {}", to_string(type.element));
  if (type.rank() < 2) return "the result is a vector";
  // Its result's last axis is that of the GEMM's rows.
  const bool is_column = anchor.op() == ops::matmul && anchor.operands()[1]->type().rank() == 1;
  return is_column ? "its second operand is a vector" : "";
}

std::string EpilogueChain::why_not(const Instruction& anchor, const Instruction& next,
                                   int operand) {
  return why_no_step(anchor, next, operand, nullptr);
}

std::string EpilogueChain::why_not(const Instruction& region) {
  const Module& body = *region.bodies()[0];
  const Instruction& anchor = anchor_of(region);
  std::string reason = why_no_anchor(anchor);
  if (const Instruction* prologue = prologue_of(region); prologue != nullptr && reason.empty()) {
    reason = why_no_prologue(*prologue, anchor);
  }
  if (!reason.empty()) return reason;
  if (body.instructions().size() > kMaxSteps - 1) return "its epilogue is too long";
  const auto why_no = [&](const Instruction& next, int operand) {
    return why_no_step(anchor, next, operand, &region);
  };
  if (!is_byte_anchor(anchor)) return why_not_chain(body, anchor, why_no);
  const Instruction& last = *body.instructions().back();
  const auto quantises = [](const auto& next) { return next->op() == ops::quantize_linear; };
  if (last.op() != ops::quantize_linear ||
      std::ranges::count_if(body.instructions(), quantises) != 1) {
    return "its result is not quantised once";
  }
  return why_not_chain(body, anchor, why_no, is_dequantised_side);
}

const Instruction* EpilogueChain::prologue_of(const Instruction& region) {
  const auto& instructions = region.bodies()[0]->instructions();
  const Instruction& first = *instructions.front();
  if (!is_any_of(first.op(), {&ops::mul, &ops::global_average_pool, &ops::cast}) ||
      instructions.size() < 2) {
    return nullptr;
  }
  const Instruction& second = **std::next(instructions.begin());
  const bool fits = first.op() == ops::cast ? is_widened_product(second) : second.op() == ops::conv;
  return fits && second.operands()[0] == first.result() ? &first : nullptr;
}

const Instruction& EpilogueChain::anchor_of(const Instruction& region) {
  const auto& instructions = region.bodies()[0]->instructions();
  return prologue_of(region) == nullptr ? *instructions.front() : **std::next(instructions.begin());
}

namespace {

// The operand of a `mul` that holds a factor per image and channel; none: there is none.
std::optional<size_t> factors_of(const Instruction& scaling) {
  const Type& type = scaling.result()->type();
  for (size_t i = 0; i < 2; ++i) {
    const Type& factors = scaling.operands()[i]->type();
    if (scaling.operands()[1 - i]->type() != type || !factors.is_ranked() ||
        factors.rank() != type.rank() || type.rank() < 3) {
      continue;
    }
    bool fits = true;
    for (size_t axis = 0; axis < type.dims->size(); ++axis) {
      const Dim &own = (*factors.dims)[axis], &all = (*type.dims)[axis];
      fits &= axis == 1 ? own == all : own == Dim(1) || (axis == 0 && own == all);
    }
    if (fits) return i;
  }
  return std::nullopt;
}

}  // namespace

std::string EpilogueChain::why_no_prologue(const Instruction& prologue, const Instruction& anchor) {
  const bool scales = prologue.op() == ops::mul;
  if (prologue.op() == ops::cast) {
    const bool widens = is_widened_product(anchor) && anchor.operands()[0] == prologue.result() &&
                        prologue.operands()[0]->type().element == ElementType::bf16;
    if (!widens) return "it does not widen the rows of a GEMM in bf16";
    return prologue.result()->uses().size() == 1 ? "" : "it has another reader";
  }
  if ((!scales && prologue.op() != ops::global_average_pool) || anchor.op() != ops::conv) {
    return "no prologue computes it";
  }
  const Type& type = prologue.result()->type();
  if (type.element != ElementType::f32 && type.element != ElementType::bf16) {
    return fmt::format("the result is {}", to_string(type.element));
  }
  if (scales && !factors_of(prologue)) return "it is not a factor per channel";
  if (anchor.operands()[0] != prologue.result() || prologue.result()->uses().size() != 1) {
    return "it has another reader";
  }
  if (!scales) return "";
  const Value& weights = *anchor.operands()[1];
  const Type& shape = weights.type();
  const auto are_one = [](const Integers& values) {
    return std::ranges::all_of(values, [](int64_t value) { return value == 1; });
  };
  const bool pointwise = shape.is_ranked() && attribute<int64_t>(anchor, "group") == 1 &&
                         are_one(attribute<Integers>(anchor, "strides")) &&
                         std::all_of(shape.dims->begin() + 2, shape.dims->end(),
                                     [](const Dim& dim) { return dim == Dim(1); }) &&
                         std::equal(type.dims->begin() + 2, type.dims->end(),
                                    anchor.result()->type().dims->begin() + 2);
  return pointwise ? "" : "the convolution is not pointwise";
}

int EpilogueChain::factor_operand(const Instruction& region) {
  const Instruction* prologue = prologue_of(region);
  if (prologue == nullptr || prologue->op() != ops::mul) return -1;
  return prologue->operands()[*factors_of(*prologue)]->index();
}

std::vector<int> EpilogueChain::anchor_operands(const Instruction& region) {
  std::vector<int> places;
  const Instruction* prologue = prologue_of(region);
  for (const Value* operand : anchor_of(region).operands()) {
    const Value* from = operand;
    if (prologue != nullptr && operand == prologue->result()) {
      if (prologue->op() == ops::global_average_pool) {
        places.push_back(static_cast<int>(region.operands().size()));
        continue;
      }
      from = prologue->operands()[prologue->op() == ops::cast ? 0 : 1 - *factors_of(*prologue)];
    }
    places.push_back(from == nullptr ? -1 : from->index());
  }
  return places;
}

EpilogueChain::EpilogueChain(const Instruction& region, Constants constants) {
  const Instruction& anchor = anchor_of(region);
  if (is_byte_anchor(anchor)) {
    add_requantisation(*region.bodies()[0], anchor, constants);
    return;
  }
  const int column = column_axis(anchor);
  const Value* value = anchor.result();
  for (const auto& next : region.bodies()[0]->instructions()) {
    if (next.get() == &anchor || next.get() == prologue_of(region)) continue;
    if (next->op() == ops::cast) {  // the type of the result
      text_ += "+cast";
      continue;
    }
    const bool first = next->operands()[0] == value;
    Part& part = parts_.emplace_back();
    text_ += fmt::format("+{}", next->op().name);
    value = next->result();
    const std::optional<ActivationCall> activation = activation_of(*next);
    if (activation || next->op() == ops::clip) {
      part.step.kind = Kind::activate;
      part.step.activation = activation ? activation->activation : Activation::clip;
      part.step.a = activation ? activation->a : 0;
      part.step.b = activation ? activation->b : 0;
      if (next->op() == ops::clip) {
        const auto limit = [&](size_t i, float absent) {
          if (!has_operand(*next, i)) return absent;
          const Tensor* tensor =
              constant_at(constants, static_cast<size_t>(next->operands()[i]->index()));
          return tensor == nullptr ? absent : floats_of(*tensor)[0];
        };
        part.step.a = limit(1, -std::numeric_limits<float>::infinity());
        part.step.b = limit(2, std::numeric_limits<float>::infinity());
      }
      continue;
    }
    const BinaryOp* binary = binary_of(next->op());
    part.step.kind = first ? binary->kind : binary->reversed_kind;
    const Value& side = *next->operands()[first ? 1 : 0];
    part.operand = side.index();
    const Broadcast broadcast = *broadcast_of(side.type(), anchor.result()->type(), column);
    part.shape = broadcast == Broadcast::scalar    ? Shape::scalar
                 : broadcast == Broadcast::columns ? Shape::columns
                                                   : Shape::full;
    part.column_axis = column - (anchor.result()->type().rank() - side.type().rank());
  }
}

void EpilogueChain::add_requantisation(const Module& body, const Instruction& anchor,
                                       Constants constants) {
  const RequantisedSteps found = requantised_steps(body, anchor, constants);
  for (const RequantisedStep& step : found.steps) {
    Part& part = parts_.emplace_back();
    part.step = step.step;
    if (step.residual == nullptr) continue;
    part.shape = Shape::full;
    part.operand = step.residual->index();
  }
  out_zero_ = found.out_zero;
  for (const auto& next : body.instructions()) {
    if (next.get() != &anchor) text_ += fmt::format("+{}", next->op().name);
  }
}

bool EpilogueChain::reads(int operand) const {
  return std::ranges::any_of(parts_, [&](const Part& part) { return part.operand == operand; });
}

namespace {

bool has_strides_of(const TensorView& view, const TensorView& other) {
  for (size_t axis = 0; axis < static_cast<size_t>(view.rank); ++axis) {
    if (view.dims[axis] != 1 && view.strides[axis] != other.strides[axis]) return false;
  }
  return true;
}

}  // namespace

void EpilogueChain::reserve(const LaunchArgs& most, const TensorView& result,
                            ScratchLayout& workspace) const {
  for (const Part& part : parts_) {
    if (part.shape != Shape::full) continue;
    const TensorView& side = *most.in[static_cast<size_t>(part.operand)];
    if (!has_strides_of(side, result)) {
      workspace.take<std::byte>(bytes_for(side.type, side.count()));
    }
  }
}

void EpilogueChain::append(const LaunchArgs& args, const TensorView& result,
                           const EpilogueStrides& strides, ScratchLayout& workspace,
                           Steps& out) const {
  out.out_zero = out_zero_;
  for (const Part& part : parts_) {
    EpilogueStep step = part.step;
    if (part.shape == Shape::none) {
      out.add(step);
      continue;
    }
    TensorView side = *args.in[static_cast<size_t>(part.operand)];
    int64_t image = 0;
    if (part.shape == Shape::columns) {
      const auto axis = static_cast<size_t>(part.column_axis);
      step.operand.column_stride = side.dims[axis] == 1 ? 0 : side.strides[axis];
    } else if (part.shape == Shape::full) {
      if (!has_strides_of(side, result)) {
        TensorView copy = side;
        copy.strides = result.strides;
        copy.data = workspace.take<std::byte>(bytes_for(side.type, side.count()));
        copy_elements(side, copy);
        side = copy;
      }
      step.operand.row_stride = strides.row;
      step.operand.column_stride = strides.column;
      image = strides.image;
    }
    step.operand.data = side.data;
    step.operand.type = side.type;
    out.add(step, image);
  }
}

}  // namespace lathe::cpu
