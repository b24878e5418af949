// SPDX-License-Identifier: MIT
#include "targets/gpu/anchor.h"

#include <algorithm>
#include <map>

#include "ir/ops.h"
#include "ops/evaluation.h"
#include "passes/fuse_regions.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/normalization.h"
#include "targets/region_form.h"

namespace lathe::gpu {
namespace {

// A limit of clip, which is a composite: with it, the epilogue stays one.
bool is_clip(const Instruction& instruction) { return instruction.op() == ops::clip; }

bool is_quick_gelu(const Instruction& instruction) {
  const ElementType type = instruction.result()->type().element;
  return instruction.op() == ops::gelu && (type == ElementType::f16 || type == ElementType::bf16) &&
         InstructionReader(instruction).text("approximate") == "none";
}

bool broadcasts_to(const Type& type, const Type& result) {
  if (!type.is_ranked() || type.rank() > result.rank()) return false;
  const int skipped = result.rank() - type.rank();
  for (int axis = 0; axis < type.rank(); ++axis) {
    const Dim& own = (*type.dims)[static_cast<size_t>(axis)];
    if (!(own == Dim(1)) && !(own == (*result.dims)[static_cast<size_t>(axis + skipped)])) {
      return false;
    }
  }
  return true;
}

std::string why_no_product(const Instruction& anchor) {
  return anchor.op() == ops::conv            ? why_no_conv(anchor)
         : anchor.op() == ops::matmul_n_bits ? why_no_n_bits(anchor)
                                             : why_no_gemm(anchor);
}

// Reason why a product does not normalise its rows itself.
std::string why_no_norm_before(const Instruction& norm, const Instruction& product, int operand) {
  const bool coded = product.op() == ops::matmul_n_bits;
  if ((!coded && product.op() != ops::matmul) || operand != 0) {
    return "only rows of products are normalised";
  }
  std::string reason = why_no_norm(norm);
  if (reason.empty()) reason = why_no_product(product);
  if (!reason.empty()) return reason;
  const Type& x = norm.operands()[0]->type();
  const Type& weights = product.operands()[1]->type();
  if (!(norm.result()->type() == x) || product.result()->type().element != x.element ||
      (!coded && weights.element != x.element)) {
    return "it changes the type";
  }
  if (x.rank() < 2 || !x.dims->back().is_constant()) return "its columns are not known";
  return coded || weights.rank() == 2 ? "" : "the weights have several matrices";
}

// Reason why the twin is not computed by the kernel of such an anchor.
std::string why_no_twin(const Instruction& anchor, const Instruction& twin) {
  const bool coded = anchor.op() == ops::matmul_n_bits;
  if ((!coded && anchor.op() != ops::matmul) || twin.op() != anchor.op())
    return "its op is another";
  const std::string reason = why_no_product(twin);
  if (!reason.empty()) return reason;
  bool alike = twin.operands().size() == anchor.operands().size() &&
               twin.attributes() == anchor.attributes() &&
               twin.result()->type() == anchor.result()->type();
  for (size_t i = 1; alike && i < twin.operands().size(); ++i) {
    const Value* own = anchor.operands()[i];
    const Value* other = twin.operands()[i];
    alike =
        (own == nullptr) == (other == nullptr) && (own == nullptr || own->type() == other->type());
  }
  if (!alike || (!coded && anchor.operands()[1]->type().rank() != 2)) {
    return "its weights have another form";
  }
  return is_floating(anchor.result()->type().element) ? "" : "the result is not a float";
}

}  // namespace

bool is_anchor(const Op& op) {
  return is_any_of(op, {&ops::matmul, &ops::gemm, &ops::conv, &ops::matmul_n_bits});
}

Anchor::Anchor(const Instruction& instruction) : anchor_(&instruction), whole_(&instruction) {
  if (instruction.op() == ops::region) {
    body_ = instruction.bodies()[0];
    anchor_ = nullptr;
    for (const auto& inner : body_->instructions()) {
      if (is_norm(inner->op()) && anchor_ == nullptr) norm_ = inner.get();
      if (!is_anchor(inner->op())) continue;
      twin_ = anchor_;
      anchor_ = inner.get();
    }
    if (anchor_ == nullptr) anchor_ = body_->instructions().front().get();
  }
  type_ = &instruction.result()->type();
  for (size_t i = 0; i < anchor_->operands().size(); ++i) {
    const Value* operand = anchor_->operands()[i];
    if (norm_ != nullptr && operand == norm_->result()) operand = norm_->operands()[0];
    places_.push_back(operand == nullptr ? -1
                      : body_ != nullptr ? operand->index()
                                         : static_cast<int>(i));
  }
  if (body_ == nullptr) return;
  for (const auto& inner : body_->instructions()) {
    if (!is_step(*inner)) continue;
    for (const Value* operand : inner->operands()) {
      if (operand != nullptr && operand->definition() == nullptr) add_side(operand->index());
    }
  }
}

size_t Anchor::add_side(int operand) {
  const auto at = std::ranges::find(sides_, operand);
  if (at != sides_.end()) return static_cast<size_t>(at - sides_.begin());
  sides_.push_back(operand);
  return sides_.size() - 1;
}

const Type& Anchor::side_type(int side) const {
  return whole_->operands()[static_cast<size_t>(sides_[static_cast<size_t>(side)])]->type();
}

std::vector<const Instruction*> Anchor::chain() const {
  std::vector<const Instruction*> out;
  if (body_ == nullptr) return out;
  for (const auto& inner : body_->instructions()) {
    if (is_step(*inner)) out.push_back(inner.get());
  }
  return out;
}

int Anchor::side_of(const Instruction& inner) const {
  int side = -1;
  for (const Value* operand : inner.operands()) {
    if (operand == nullptr || operand->definition() != nullptr) continue;
    if (side >= 0) return -1;
    const auto at = std::ranges::find(sides_, operand->index());
    side = static_cast<int>(at - sides_.begin());
  }
  return side;
}

std::string Anchor::label() const {
  if (body_ == nullptr) return std::string(anchor_->op().name);
  std::string text;
  for (const auto& inner : body_->instructions()) {
    text += fmt::format("{}{}", text.empty() ? "" : "+", inner->op().name);
  }
  return text;
}

std::string Anchor::kernel_with(std::string_view file, const std::string& epilogue) {
  std::string kernel(kernel_text(file));
  const std::string marker = "\nEPILOGUE\n";
  const size_t at = kernel.find(marker);
  check(at != std::string::npos, ErrorKind::internal, "{} has no place for an epilogue", file);
  return kernel.replace(at, marker.size(), "\n" + epilogue);
}

std::string Anchor::epilogue_text(std::string_view sum_type, const std::string& first) const {
  std::string text = fmt::format(
      "#if !defined(SIDE_VALUE)\n#define SIDE_VALUE(i, T) fetch((const T*)a.side[i].data + "
      "place_of(a, a.side[i], batch, row, column))\n#endif\n"
      "template <class A>\nDEVICE {0} epilogue(const A& a, {0} v, {0} t, i64 batch, i64 row, i64 "
      "column) {{\n",
      sum_type);
  for (size_t i = 0; i < sides_.size(); ++i) {
    const Value* operand = whole_->operands()[static_cast<size_t>(sides_[i])];
    text += fmt::format("  const auto x{0} = SIDE_VALUE({0}, {1});\n", i,
                        type_name(operand->type().element));
  }
  text += first;
  std::string value = "v";
  if (body_ != nullptr) {
    std::map<const Value*, std::string> names{{anchor_->result(), value}};
    if (twin_ != nullptr) names.emplace(twin_->result(), "t");
    const auto name_of = [&](const Value* operand) {
      const auto at = names.find(operand);
      if (at != names.end()) return at->second;
      const auto side = std::ranges::find(sides_, operand->index());
      return fmt::format("x{}", side - sides_.begin());
    };
    for (const auto& inner : body_->instructions()) {
      if (!is_step(*inner)) continue;
      const std::string next = fmt::format("y{}", names.size());
      if (is_clip(*inner)) {
        std::string limited = name_of(inner->operands()[0]);
        for (size_t i = 1; i < inner->operands().size(); ++i) {
          if (inner->operands()[i] == nullptr) continue;
          limited = fmt::format("{}({}, {})", i == 1 ? "most" : "least", limited,
                                name_of(inner->operands()[i]));
        }
        text += fmt::format("  const {} {} = {};\n", sum_type, next, limited);
      } else if (is_quick_gelu(*inner) && sum_type == "float") {
        text += fmt::format("  const float {} = quick_gelu({});\n", next,
                            name_of(inner->operands()[0]));
      } else {
        std::vector<std::string> arguments;
        for (const Value* operand : inner->operands()) arguments.push_back(name_of(operand));
        text += print_expression(formula_of(*inner), arguments, next);
      }
      names.emplace(inner->result(), next);
      value = next;
    }
  }
  return fmt::format("{}  return {};\n}}\n", text, value);
}

std::string why_no_epilogue(const Instruction& anchor, const Instruction& next, int operand) {
  if (operand == kTwin) return why_no_twin(anchor, next);
  if (operand == kGraph || operand == kHalves) return "epilogues are chains";
  if (is_norm(anchor.op())) return why_no_norm_before(anchor, next, operand);
  if (!is_anchor(anchor.op())) return fmt::format("{} takes no epilogue", anchor.op().name);
  std::string reason = why_no_product(anchor);
  if (!reason.empty()) return reason;
  if (!is_clip(next) && !is_elementwise(next.op())) {
    return fmt::format("{} is not elementwise", next.op().name);
  }
  if (is_clip(next) && operand != 0) return "the value is a limit";
  const Type& type = anchor.result()->type();
  if (!is_floating(type.element)) return "the result is not a float";
  if (!(next.result()->type() == type)) return "it changes the type";
  for (size_t i = 0; i < next.operands().size(); ++i) {
    if (static_cast<int>(i) == operand) continue;
    const Value* side = next.operands()[i];
    if (side == nullptr) {
      if (!is_clip(next)) return "an operand is absent";
      continue;
    }
    reason = why_no_type(side->type());
    if (!reason.empty()) return reason;
    if (!broadcasts_to(side->type(), type)) return "an operand has another shape";
    if (is_clip(next) && side->type().element != type.element) return "a limit has another type";
  }
  return "";
}

std::string why_no_anchored_region(const Instruction& region) {
  const Module& body = *region.bodies()[0];
  const Anchor whole(region);
  const Instruction& anchor = whole.anchor();
  if (!is_anchor(anchor.op())) return fmt::format("{} begins no region", anchor.op().name);
  std::string reason;
  if (whole.twin() != nullptr) reason = why_no_twin(anchor, *whole.twin());
  if (whole.norm() != nullptr && reason.empty()) {
    reason = why_no_norm_before(*whole.norm(), anchor, 0);
  }
  if (!reason.empty()) return reason;
  reason = why_not_chain(body, anchor, [&](const Instruction& next, int operand) {
    return why_no_epilogue(anchor, next, operand);
  });
  if (!reason.empty()) return reason;
  return whole.sides().size() > kMaxSides ? "it has too many operands" : "";
}

}  // namespace lathe::gpu
