// SPDX-License-Identifier: MIT
#include "passes/simplify_positions.h"

#include <algorithm>
#include <cmath>

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/affine_analysis.h"
#include "passes/analysis/affine_bounds.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

// The number that all elements are, if conditions hold everywhere or one holds nowhere.
std::optional<double> number_everywhere(const AffineValue& value, std::span<const Dim> dims) {
  if (value.linear || value.joins_masks) return std::nullopt;
  bool always = true;
  for (const Linear& condition : value.conditions) {
    const Bounds bounds = bounds_of(aligned(condition, static_cast<int>(dims.size())), dims);
    if (less_equal(bounds.most, -1) == Ternary::yes) return value.no;
    always = always && less_equal(0, bounds.least) == Ternary::yes;
  }
  return always ? std::optional(value.yes) : std::nullopt;
}

const std::vector<Dim>& dims_of(const Value& value) { return *value.type().dims; }

bool is_ranked(const Value* value) { return value != nullptr && value->type().is_ranked(); }

// Indices [first, first + count) along one axis of a gather's indices, or one for all (-1).
struct Run {
  Dim first;
  Dim count = 1;
  int along = -1;
};

class Rewrite {
 public:
  explicit Rewrite(Module& module) : module_(module), flow_(module, {}) {}

  bool run() {
    std::vector<Instruction*> all;
    for (const auto& instruction : module_.instructions()) all.push_back(instruction.get());
    bool changed = false;
    for (Instruction* instruction : all) {
      const bool simple = instruction->results().size() == 1 && instruction->literal() == nullptr &&
                          is_ranked(instruction->result()) && !instruction->deferred();
      if (!simple || instruction->result()->uses().empty()) continue;
      changed |= broadcasts_less(*instruction);
      changed |= replace(*instruction);
    }
    return changed;
  }

 private:
  const AffineValue* known(const Value* value) const {
    const auto at = replaced_.find(value);
    return flow_.find(at == replaced_.end() ? value : at->second);
  }

  // Without the built instructions if they compute another type.
  bool replace(Instruction& root) {
    const size_t before = module_.instructions().size();
    Builder b(module_, &root);
    b.set_origins(root.origins());
    Value* value = replacement(root, b);
    const bool fits = value != nullptr && value->type() == root.result()->type();
    if (!fits) {
      auto at = module_.instructions().begin();
      while (at->get() != &root) ++at;
      for (size_t built = module_.instructions().size() - before; built > 0; --built) {
        module_.erase(std::prev(at)->get());
      }
      return false;
    }
    replaced_[value] = root.result();
    const bool same_elements = value->elements() == root.result()->elements();
    module_.replace_uses(root.result(), value);
    if (!same_elements) infer_users(*value);
    return true;
  }

  Value* replacement(const Instruction& root, Builder& b) const {
    const Op& op = root.op();
    if (op == ops::gather) return gathered(root, b);
    if (op == ops::gather_nd) return gathered_by_index(root, b);
    if (op == ops::and_ || op == ops::or_) {
      if (Value* value = without_constant(root, b)) return value;
    }
    if (Value* value = splat(root, b)) return value;
    return after_broadcast(root, b);
  }

  // A comparison, or the elements of a constant, that are one number everywhere.
  Value* splat(const Instruction& root, Builder& b) const {
    const Type& type = root.result()->type();
    const AffineValue* value = known(root.result());
    const bool compares = type.element == ElementType::boolean &&
                          (root.op().formula != nullptr || root.op() == ops::cast);
    const bool picks = root.op() == ops::gather_elements && is_integer(type.element);
    if (value == nullptr || (!compares && !picks)) return nullptr;
    const std::optional<double> number = number_everywhere(*value, *type.dims);
    if (!number || std::trunc(*number) != *number || std::abs(*number) > 1e15) return nullptr;
    return b.expand(b.scalar(type.element, *number), *type.dims);
  }

  // and(x, true), or(x, false): x.
  Value* without_constant(const Instruction& root, Builder& b) const {
    const std::vector<Dim>& dims = dims_of(*root.result());
    for (size_t i = 0; i < 2; ++i) {
      const Value* constant = root.operands()[i];
      const AffineValue* value = known(constant);
      if (value == nullptr || !is_ranked(constant)) continue;
      const std::optional<double> number = number_everywhere(*value, dims_of(*constant));
      if (!number || (*number != 0) != (root.op() == ops::and_)) continue;
      Value* x = root.operands()[1 - i];
      return x->type() == root.result()->type() ? x : b.expand(x, dims);
    }
    return nullptr;
  }

  std::optional<Run> run_of(const Value& indices, const Dim& extent) const {
    const AffineValue* value = known(&indices);
    if (value == nullptr) return std::nullopt;
    Run run;
    if (value->is_constant()) {
      const auto index = static_cast<int64_t>(value->yes);
      if (static_cast<double>(index) != value->yes) return std::nullopt;
      run.first = index < 0 ? extent + Dim(index) : Dim(index);
    } else if (value->linear) {
      const Linear linear = aligned(*value->linear, indices.type().rank());
      run.first = linear.offset;
      for (size_t axis = 0; axis < linear.steps.size(); ++axis) {
        if (linear.steps[axis] == 0) continue;
        if (linear.steps[axis] != 1 || run.along >= 0) return std::nullopt;
        run.along = static_cast<int>(axis);
        run.count = dims_of(indices)[axis];
      }
    } else {
      return std::nullopt;
    }
    // A gather refuses what a slice would clamp.
    const bool fits = less_equal(0, run.first) == Ternary::yes &&
                      less_equal(run.first + run.count, extent) == Ternary::yes;
    return fits ? std::optional(run) : std::nullopt;
  }

  // gather at consecutive positions: a slice, repeated along the other axes of the indices.
  Value* gathered(const Instruction& root, Builder& b) const {
    Value* x = root.operands()[0];
    const Value* indices = root.operands()[1];
    if (!is_ranked(x) || !is_ranked(indices)) return nullptr;
    auto axis = std::get<int64_t>(*find_attribute(root.attributes(), "axis"));
    if (axis < 0) axis += x->type().rank();
    const std::optional<Run> run = run_of(*indices, dims_of(*x)[static_cast<size_t>(axis)]);
    if (!run) return nullptr;
    Value* part = b(ops::slice, {x, b.dims({run->first}), b.dims({run->first + run->count}),
                                 b.integers({axis})});
    const int rank = indices->type().rank();
    if (rank == 0) return b(ops::squeeze, {part, b.integers({axis})});
    std::vector<int64_t> added;
    for (int other = 0; other < rank; ++other) {
      if (other != std::max(run->along, 0)) added.push_back(axis + other);
    }
    if (!added.empty()) part = b(ops::unsqueeze, {part, b.integers(added)});
    const std::vector<Dim>& dims = dims_of(*root.result());
    return dims_of(*part) == dims ? part : b.expand(part, dims);
  }

  // gather_nd that reads every element at its own place: x, with other axes of size 1.
  Value* gathered_by_index(const Instruction& root, Builder& b) const {
    Value* x = root.operands()[0];
    const Value* places = root.operands()[1];
    if (!is_ranked(x) || !is_ranked(places) || places->type().rank() < 2 ||
        std::get<int64_t>(*find_attribute(root.attributes(), "batch_dims")) != 0) {
      return nullptr;
    }
    std::vector<const Value*> coordinates = {places};
    if (const Instruction* joined = defined_by(*places, ops::concat)) {
      const auto along = std::get<int64_t>(*find_attribute(joined->attributes(), "axis"));
      if (along != -1 && along + 1 != places->type().rank()) return nullptr;
      coordinates.assign(joined->operands().begin(), joined->operands().end());
    }
    const std::vector<Dim>& dims = dims_of(*root.result());
    const auto outer = static_cast<size_t>(places->type().rank() - 1);
    size_t next = 0;  // axes of the result before it are used up
    std::vector<Dim> kept(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(outer));
    for (Dim& dim : kept) dim = 1;
    for (size_t k = 0; k < coordinates.size(); ++k) {
      if (!is_ranked(coordinates[k]) || !(dims_of(*coordinates[k]).back() == Dim(1)) ||
          k >= dims_of(*x).size()) {
        return nullptr;
      }
      const std::optional<size_t> axis = own_axis(*coordinates[k], dims_of(*x)[k], dims, outer);
      if (!axis || *axis < next) return nullptr;
      kept[*axis] = dims_of(*x)[k];
      next = *axis + 1;
    }
    if (!(dims_of(*places).back() == Dim(std::ssize(coordinates)))) return nullptr;
    kept.insert(kept.end(), dims_of(*x).begin() + std::ssize(coordinates), dims_of(*x).end());
    // A cast behind the reshape is fused with what reads it.
    const Instruction* cast = defined_by(*x, ops::cast);
    const bool moves = cast != nullptr && x->uses().size() == 1 && is_ranked(cast->operands()[0]);
    Value* placed = b.reshape(moves ? cast->operands()[0] : x, kept);
    if (moves) placed = b.cast(placed, x->type().element);
    return kept == dims ? placed : b.expand(placed, dims);
  }

  // The axis of the result, of size `extent`, whose index the coordinate is.
  std::optional<size_t> own_axis(const Value& coordinate, const Dim& extent,
                                 const std::vector<Dim>& dims, size_t outer) const {
    const AffineValue* value = known(&coordinate);
    if (value == nullptr || !value->linear || !(value->linear->offset == Dim(0))) return {};
    const Linear linear = aligned(*value->linear, static_cast<int>(outer) + 1);
    std::optional<size_t> found;
    for (size_t axis = 0; axis < outer; ++axis) {
      if (linear.steps[axis] == 0) continue;
      if (linear.steps[axis] != 1 || found || !(dims[axis] == extent)) return std::nullopt;
      found = axis;
    }
    return found;
  }

  static bool is_elementwise(const Instruction& root) {
    return root.op().formula != nullptr || root.op() == ops::cast;
  }

  // The operand of the expand that computes a value; null if none does.
  static Value* source_of(const Value* value) {
    const Instruction* expand = value == nullptr ? nullptr : defined_by(*value, ops::expand);
    return expand != nullptr && is_ranked(expand->operands()[0]) ? expand->operands()[0] : nullptr;
  }

  // Elementwise ops read what their other operands broadcast anyway.
  static bool broadcasts_less(Instruction& root) {
    if (!is_elementwise(root)) return false;
    bool changed = false;
    const std::vector<Dim>& dims = dims_of(*root.result());
    for (size_t i = 0; i < root.operands().size(); ++i) {
      Value* source = source_of(root.operands()[i]);
      if (source == nullptr) continue;
      bool same = true;
      for (size_t back = 1; back <= dims.size() && same; ++back) {
        const Dim& wanted = dims[dims.size() - back];
        const auto has = [&](const Value* value) {
          return is_ranked(value) && dims_of(*value).size() >= back &&
                 dims_of(*value)[dims_of(*value).size() - back] == wanted;
        };
        same = wanted == Dim(1) || has(source);
        for (size_t k = 0; k < root.operands().size() && !same; ++k) {
          same = k != i && has(root.operands()[k]);
        }
      }
      if (!same) continue;
      root.set_operand(static_cast<int>(i), source);
      changed = true;
    }
    return changed;
  }

  // An elementwise op of one broadcast operand and of numbers: computed before the broadcast.
  static Value* after_broadcast(const Instruction& root, Builder& b) {
    if (!is_elementwise(root)) return nullptr;
    std::vector<Value*> operands(root.operands().begin(), root.operands().end());
    size_t at = operands.size();
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!is_ranked(operands[i])) return nullptr;
      if (operands[i]->type().rank() == 0) continue;
      if (at < operands.size() || source_of(operands[i]) == nullptr) return nullptr;
      at = i;
    }
    if (at == operands.size()) return nullptr;
    operands[at] = source_of(operands[at]);
    Value* value = b(root.op(), std::move(operands), root.attributes());
    return b.expand(value, dims_of(*root.result()));
  }

  Module& module_;
  AffineAnalysis flow_;
  std::map<const Value*, const Value*> replaced_;  // new values, by the values that they replace
};

// Whether a module computes with positions: the analysis reads all literals.
bool has_positions(const Module& module) {
  return std::ranges::any_of(module.instructions(), [](const auto& instruction) {
    return instruction->op() == ops::range || instruction->op() == ops::gather_nd ||
           instruction->op() == ops::gather_elements;
  });
}

}  // namespace

const Pass simplify_positions{
    .name = "simplify_positions",
    .doc = "Replaces what follows from positions alone by constants, slices and broadcasts.",
    .run =
        [](Program& program) {
          bool changed = false;
          for (const auto& module : program.modules()) {
            if (has_positions(*module)) changed |= Rewrite(*module).run();
          }
          return changed;
        },
};

}  // namespace lathe
