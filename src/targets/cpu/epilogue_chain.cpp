// SPDX-License-Identifier: MIT
#include "targets/cpu/epilogue_chain.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "ir/ops.h"
#include "ops/support/views.h"
#include "passes/fuse_regions.h"
#include "targets/cpu/activation_of.h"
#include "targets/cpu/elementwise.h"
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
  const bool is_conv =
      is_any_of(anchor.op(), {&ops::conv, &ops::conv_transpose, &ops::qlinear_conv});
  return is_conv ? 1 : anchor.result()->type().rank() - 1;
}

enum class Broadcast : uint8_t { scalar, columns, rows, full };

// How a type broadcasts to the result; none if it is not one of the four.
std::optional<Broadcast> broadcast_of(const Type& type, const Type& result, int column) {
  if (!type.is_ranked() || type.rank() > result.rank()) return std::nullopt;
  const int skipped = result.rank() - type.rank();
  bool ones = true, columns = true, rows = skipped == 0, full = rows;
  for (int axis = 0; axis < type.rank(); ++axis) {
    const Dim& own = (*type.dims)[static_cast<size_t>(axis)];
    const Dim& all = (*result.dims)[static_cast<size_t>(axis + skipped)];
    const bool one = own == Dim(1);
    ones &= one;
    columns &= axis + skipped == column ? own == all : one;
    rows &= axis == column ? one : own == all;
    full &= own == all;
  }
  if (ones) return Broadcast::scalar;
  if (columns && column >= skipped) return Broadcast::columns;
  if (full) return Broadcast::full;
  return rows ? std::optional(Broadcast::rows) : std::nullopt;
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

// A vector of a tile holds columns of one row: activations of few ones would fill less than half.
bool has_few_columns(const Instruction& anchor) {
  constexpr int64_t kLeastColumns = 8;
  const Dim& columns = (*anchor.result()->type().dims)[static_cast<size_t>(column_axis(anchor))];
  return columns.constant().value_or(kLeastColumns) < kLeastColumns;
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
  if (anchor.op() == ops::conv_transpose && has_few_columns(anchor)) return "it has few columns";
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
  const auto broadcast = broadcast_of(side->type(), anchor.result()->type(), column_axis(anchor));
  return broadcast && broadcast != Broadcast::rows
             ? ""
             : "its other operand does not broadcast along rows";
}

// A cast as which an anchor stores its result.
bool is_stored_cast(const Instruction& anchor, const Instruction& next) {
  return next.op() == ops::cast && is_widened_product(anchor) &&
         next.result()->type().element == ElementType::bf16;
}

// Tiles save a launch that would take longer than its work. For larger results a launch of its own
// is as fast as code for each tile, or a twentieth faster.
bool gains_on_tiles(const Instruction& anchor) {
  constexpr int64_t kFew = 1 << 14;
  int64_t count = 1;
  for (const Dim& dim : *anchor.result()->type().dims) {
    if (!dim.is_constant()) return false;
    count *= *dim.constant();
  }
  return count <= kFew;
}

// Why generated code does not compute `next` on the tiles of the anchor's result.
std::string why_no_code_step(const Instruction& anchor, const Instruction& next) {
  if (is_byte_anchor(anchor)) return "the result has 8 bits";
  if (has_few_columns(anchor)) return "it has few columns";
  if (!gains_on_tiles(anchor)) return "a launch of its own is faster";
  if (is_any_of(next.op(), {&ops::quantize_linear, &ops::dequantize_linear})) {
    return fmt::format("no epilogue computes {}", next.op().name);
  }
  if (reads_rounded(next)) return "a cast reads a rounded value";
  std::string reason = why_not_fused(next);
  if (!reason.empty()) return reason;
  const Type& result = anchor.result()->type();
  if (next.result()->type().dims != result.dims) return "another shape";
  for (const Value* operand : next.operands()) {
    if (!broadcast_of(operand->type(), result, column_axis(anchor))) {
      return "its other operand broadcasts along axes of rows";
    }
  }
  return "";
}

// The instructions that follow the anchor, without a cast as which its result is stored.
std::vector<const Instruction*> followers_of(const Instruction& region, const Instruction& anchor) {
  std::vector<const Instruction*> found;
  for (const auto& next : region.bodies()[0]->instructions()) {
    if (next.get() == &anchor || next.get() == EpilogueChain::prologue_of(region)) continue;
    found.push_back(next.get());
  }
  if (!found.empty() && is_stored_cast(anchor, *found.back())) found.pop_back();
  return found;
}

// What those read from outside.
std::vector<const Value*> sides_of(std::span<const Instruction* const> followers) {
  std::vector<const Value*> sides;
  for (const Instruction* next : followers) {
    for (const Value* operand : next->operands()) {
      const bool outer = operand->definition() == nullptr;
      if (outer && std::ranges::find(sides, operand) == sides.end()) sides.push_back(operand);
    }
  }
  return sides;
}

std::string why_no_code(const Instruction& region, const Instruction& anchor) {
  const Module& body = *region.bodies()[0];
  const std::vector<const Instruction*> followers = followers_of(region, anchor);
  if (followers.empty()) return "nothing follows the anchor";
  const Instruction* prologue = EpilogueChain::prologue_of(region);
  for (const Instruction* next : followers) {
    std::string reason = why_no_code_step(anchor, *next);
    if (!reason.empty()) return reason;
    const auto precedes = [&](const Value* operand) {
      return prologue != nullptr && operand == prologue->result();
    };
    if (std::ranges::any_of(next->operands(), precedes)) return "it reads the prologue";
  }
  constexpr size_t kOwnSteps = 2;
  if (sides_of(followers).size() + kOwnSteps > EpilogueChain::kMaxSteps ||
      followers.size() > ElementwiseProgram::kMaxSteps) {
    return "its epilogue is too long";
  }
  if (followers.back()->result()->type().element != anchor.result()->type().element) {
    return "another type";
  }
  return body.results().size() == 1 && body.results()[0] == body.instructions().back()->result()
             ? ""
             : "its last instruction is not its result";
}

}  // namespace

std::string EpilogueChain::why_no_anchor(const Instruction& anchor) {
  if (is_byte_anchor(anchor)) return "";
  if (!is_any_of(anchor.op(), {&ops::conv, &ops::conv_transpose, &ops::matmul, &ops::gemm})) {
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
  if (operand == kGraph) return why_no_code_step(anchor, next);
  std::string reason = why_no_step(anchor, next, operand, nullptr);
  return reason.empty() || why_no_code_step(anchor, next).empty() ? "" : reason;
}

namespace {

// Why the instructions after the anchor are no chain of steps in registers.
std::string why_no_steps(const Instruction& region, const Instruction& anchor) {
  const Module& body = *region.bodies()[0];
  if (body.instructions().size() > EpilogueChain::kMaxSteps - 1) return "its epilogue is too long";
  const auto why_no = [&](const Instruction& next, int operand) {
    return why_no_step(anchor, next, operand, &region);
  };
  return why_not_chain(body, anchor, why_no,
                       is_byte_anchor(anchor) ? is_dequantised_side : nullptr);
}

}  // namespace

std::string EpilogueChain::why_not(const Instruction& region) {
  const Module& body = *region.bodies()[0];
  const Instruction& anchor = anchor_of(region);
  std::string reason = why_no_anchor(anchor);
  if (const Instruction* prologue = prologue_of(region); prologue != nullptr && reason.empty()) {
    reason = why_no_prologue(*prologue, anchor);
  }
  if (!reason.empty()) return reason;
  reason = why_no_steps(region, anchor);
  if (!is_byte_anchor(anchor)) {
    return reason.empty() || why_no_code(region, anchor).empty() ? "" : reason;
  }
  if (!reason.empty()) return reason;
  const Instruction& last = *body.instructions().back();
  const auto quantises = [](const auto& next) { return next->op() == ops::quantize_linear; };
  if (last.op() != ops::quantize_linear ||
      std::ranges::count_if(body.instructions(), quantises) != 1) {
    return "its result is not quantised once";
  }
  return "";
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

EpilogueChain::EpilogueChain(const Instruction& region, Constants constants, Isa isa) {
  const Instruction& anchor = anchor_of(region);
  if (is_byte_anchor(anchor)) {
    add_requantisation(*region.bodies()[0], anchor, constants);
  } else if (why_no_steps(region, anchor).empty()) {
    add_steps(region, constants);
  } else {
    add_code(region, isa);
  }
}

void EpilogueChain::add_side(Part& part, const Value& side, const Instruction& anchor) const {
  const int column = column_axis(anchor);
  part.operand = side.index();
  const Broadcast broadcast = *broadcast_of(side.type(), anchor.result()->type(), column);
  part.shape = broadcast == Broadcast::scalar    ? Shape::scalar
               : broadcast == Broadcast::columns ? Shape::columns
               : broadcast == Broadcast::rows    ? Shape::rows
                                                 : Shape::full;
  part.column_axis = column - (anchor.result()->type().rank() - side.type().rank());
}

void EpilogueChain::add_code(const Instruction& region, Isa isa) {
  const Instruction& anchor = anchor_of(region);
  const std::vector<const Instruction*> followers = followers_of(region, anchor);
  const std::vector<const Value*> sides = sides_of(followers);
  for (const Value* side : sides) add_side(parts_.emplace_back(), *side, anchor);
  for (const auto& next : region.bodies()[0]->instructions()) {
    if (next.get() == &anchor || next.get() == prologue_of(region)) continue;
    text_ += fmt::format("+{}", next->op().name);
  }
  TileEpilogue::Anchor own{.result = anchor.result()};
  if (anchor.op() == ops::gemm) {
    own.factor = static_cast<float>(attribute<double>(anchor, "alpha"));
    own.summand_factor = static_cast<float>(attribute<double>(anchor, "beta"));
  }
  if (anchor.op() != ops::matmul && has_operand(anchor, 2)) own.summand = element_of(anchor, 2);
  code_ = std::make_unique<const TileEpilogue>(own, sides, followers,
                                               region.result()->type().element, isa);
}

void EpilogueChain::add_steps(const Instruction& region, Constants constants) {
  const Instruction& anchor = anchor_of(region);
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
    add_side(part, *next->operands()[first ? 1 : 0], anchor);
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
    if (part.shape != Shape::full && part.shape != Shape::rows) continue;
    const TensorView& side = *most.in[static_cast<size_t>(part.operand)];
    if (part.shape == Shape::full ? !has_strides_of(side, result) : !side.is_dense()) {
      workspace.take<std::byte>(bytes_for(side.type, side.count()));
    }
  }
}

void EpilogueChain::append(const LaunchArgs& args, const TensorView& result,
                           const EpilogueStrides& strides, ScratchLayout& workspace,
                           Steps& out) const {
  out.out_zero = out_zero_;
  out.code = code_.get();
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
    } else if (part.shape == Shape::rows) {
      side = dense_operand(side, workspace);
      step.operand.row_stride = 1;
      image = strides.image == 0 ? 0 : side.count() / side.dims[0];
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
