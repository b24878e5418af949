// SPDX-License-Identifier: MIT
#include "passes/retype.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/fuse_regions.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

class Retyper {
 public:
  Retyper(Module& module, const Retyping& retyping) : module_(module), retyping_(retyping) {}

  bool run() {
    for (auto at = module_.instructions().begin(); at != module_.instructions().end();) {
      Instruction& instruction = **at++;
      if (may_take(instruction)) take(instruction);
      if (is_exact_cast(instruction)) {
        twins_[instruction.result()] = instruction.operands()[0];
      } else if (is_known_cast(instruction)) {
        bypass(instruction);
      }
    }
    for (Instruction* old : taken_) cast_back(*old);
    for (auto at = taken_.rbegin(); at != taken_.rend(); ++at) module_.erase(*at);
    return !taken_.empty();
  }

 private:
  bool has_type(const Value& value, ElementType type) const {
    return value.type().is_tensor() && !value.type().is_boxed() && value.type().element == type;
  }

  bool may_take(const Instruction& instruction) const {
    const Op& op = instruction.op();
    if (op.structural != Structural::none || !op.bodies.empty() || !op.updates.empty() ||
        instruction.deferred() || !instruction.found().empty() || instruction.results().empty() ||
        !has_type(*instruction.result(), retyping_.from)) {
      return false;
    }
    bool any = false, reached = false;
    for (const Value* operand : instruction.operands()) {
      if (operand == nullptr) continue;
      any |= has_type(*operand, retyping_.from);
      reached |= twins_.contains(operand);
    }
    return any && retyping_.takes(instruction, reached);
  }

  // A cast to the type in which its operand lies.
  bool is_known_cast(const Instruction& instruction) const {
    return instruction.op() == ops::cast && twins_.contains(instruction.operands()[0]) &&
           has_type(*instruction.result(), retyping_.to);
  }
  // A cast of a value of the narrower type.
  bool is_exact_cast(const Instruction& instruction) const {
    return instruction.op() == ops::cast && !instruction.deferred() &&
           info(retyping_.to).bits < info(retyping_.from).bits &&
           has_type(*instruction.operands()[0], retyping_.to) &&
           has_type(*instruction.result(), retyping_.from);
  }

  // Its users read the value as it was computed.
  void bypass(Instruction& cast) {
    module_.replace_uses(cast.result(), twins_.at(cast.operands()[0]));
    taken_.push_back(&cast);
  }

  // The value in the new type, cast before `user` if it is not computed in it.
  Value* twin(Value* value, const Instruction& user, Builder& b) {
    const auto known = twins_.find(value);
    if (known != twins_.end()) return known->second;
    const bool constant = is_constant(*value);
    const bool saturates = retyping_.saturates && retyping_.saturates(user);
    Value*& cast = casts_[{value, saturates}];
    if (cast != nullptr) return cast;
    if (constant && !saturates) return cast = narrowed_constant(value, b);
    Value* from = value;
    if (saturates) {
      const auto limit = [&](const Op& relation, double number) {
        Value* most = b.scalar(retyping_.from, number);
        from = b(ops::where, {b(relation, {from, most}), most, from});
      };
      limit(ops::greater, retyping_.largest);
      limit(ops::less, -retyping_.largest);
    }
    cast = b.cast(from, retyping_.to);
    for (Value* made = cast; constant && made != value;) {
      Instruction* definition = made->definition();
      definition->set_deferred(true);
      made = definition->operands().back();
      if (definition->op() == ops::where)
        definition->operands()[0]->definition()->set_deferred(true);
    }
    return cast;
  }

  // Transposed after the cast, and without one if it was widened before.
  Value* narrowed_constant(Value* value, Builder& b) {
    const Instruction* made = value->definition();
    if (made->deferred() && made->op() == ops::cast &&
        has_type(*made->operands()[0], retyping_.to) && is_exact(*made)) {
      return made->operands()[0];
    }
    const bool transposed = made->deferred() && made->op() == ops::transpose;
    Instruction* fresh =
        transposed
            ? b.add(ops::transpose, {narrowed_constant(made->operands()[0], b)}, made->attributes())
            : const_cast<Instruction*>(b.cast(value, retyping_.to)->definition());
    fresh->set_deferred(true);
    return fresh->result();
  }
  // Widens.
  bool is_exact(const Instruction& cast) const {
    return info(retyping_.to).bits < info(cast.result()->type().element).bits;
  }

  void take(Instruction& instruction) {
    Builder b(module_, &instruction);
    b.set_origins(instruction.origins());
    std::vector<Value*> operands;
    for (size_t i = 0; i < instruction.operands().size(); ++i) {
      Value* operand = instruction.operands()[i];
      const bool changes = operand != nullptr && has_type(*operand, retyping_.from) &&
                           !(retyping_.keeps && retyping_.keeps(instruction, i));
      operands.push_back(changes ? twin(operand, instruction, b) : operand);
    }
    Instruction* fresh = nullptr;
    try {
      fresh = b.add(instruction.op(), operands, instruction.attributes(), {},
                    static_cast<int>(instruction.results().size()));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
      return;  // the op does not have this type; cleanup removes the casts
    }
    const bool fits = has_type(*fresh->result(), retyping_.to) && retyping_.accepts(*fresh);
    if (!fits) {
      module_.erase(fresh);
      return;
    }
    for (size_t i = 0; i < fresh->results().size(); ++i) {
      twins_[instruction.result(static_cast<int>(i))] = fresh->result(static_cast<int>(i));
    }
    taken_.push_back(&instruction);
  }

  // What was not taken reads the value in its own type.
  void cast_back(Instruction& old) {
    for (size_t i = 0; i < old.results().size(); ++i) {
      Value* value = old.result(static_cast<int>(i));
      const bool read = std::ranges::any_of(value->uses(), [&](const Use& use) {
        return use.user == nullptr || std::ranges::find(taken_, use.user) == taken_.end();
      });
      if (!read) continue;
      Value* fresh = twins_.at(value);
      Builder b(module_, &old);
      b.set_origins(old.origins());
      module_.replace_uses(value, b.cast(fresh, value->type().element));
    }
  }

  Module& module_;
  const Retyping& retyping_;
  std::map<const Value*, Value*> twins_;
  std::map<std::pair<const Value*, bool>, Value*> casts_;  // by value and whether it saturates
  std::vector<Instruction*> taken_;
};

bool has_constant_weights(const Instruction& instruction) {
  return instruction.operands().size() > 1 && instruction.operands()[1] != nullptr &&
         is_constant(*instruction.operands()[1]);
}

bool moves_elements(const Op& op) {
  return is_any_of(op, {&ops::reshape, &ops::transpose, &ops::squeeze, &ops::unsqueeze, &ops::slice,
                        &ops::concat, &ops::pad, &ops::expand, &ops::resize, &ops::split});
}

bool is_pooling(const Op& op) {
  return is_any_of(
      op, {&ops::max_pool, &ops::average_pool, &ops::global_average_pool, &ops::global_max_pool});
}

}  // namespace

Pass retype(std::string_view name, std::string_view doc, Retyping retyping) {
  return {.name = name, .doc = doc, .run = [retyping = std::move(retyping)](Program& program) {
            if (!retyping.with_states && !program.states().empty()) return false;
            bool changed = false;
            // By index: bodies of control flow are modules too.
            for (size_t i = 0; i < program.modules().size(); ++i) {
              changed |= Retyper(*program.modules()[i], retyping).run();
            }
            return changed;
          }};
}

Pass widen_f16(std::function<bool(const Instruction& instruction)> accepts) {
  return retype(
      "widen_f16", "Computes f16 in f32.",
      {.from = ElementType::f16,
       .to = ElementType::f32,
       .takes =
           [](const Instruction& instruction, bool reached) {
             const Op& op = instruction.op();
             if (moves_elements(op)) return reached;
             return is_elementwise(op) || is_pooling(op) ||
                    is_any_of(
                        op, {&ops::conv, &ops::conv_transpose, &ops::matmul, &ops::gemm, &ops::clip,
                             &ops::softmax, &ops::layer_normalization, &ops::rms_normalization,
                             &ops::batch_normalization, &ops::reduce_mean, &ops::reduce_sum});
           },
       .accepts = std::move(accepts)});
}

Pass narrow_convolutions(std::function<bool(const Instruction& instruction)> accepts) {
  return retype("narrow_convolutions", "Computes convolutions and what stands between in bf16.",
                {.from = ElementType::f32,
                 .to = ElementType::bf16,
                 .takes =
                     [](const Instruction& instruction, bool reached) {
                       const Op& op = instruction.op();
                       if (op == ops::conv) return has_constant_weights(instruction);
                       return reached && (is_elementwise(op) || is_pooling(op) || op == ops::clip ||
                                          op == ops::concat || op == ops::resize);
                     },
                 .accepts = std::move(accepts)});
}

Pass narrow_floats(ElementType to, std::function<bool(const Instruction& instruction)> accepts) {
  constexpr double kLargestF16 = 65504;
  Retyping retyping{
      .from = ElementType::f32,
      .to = to,
      .takes =
          [](const Instruction& instruction, bool reached) {
            const Op& op = instruction.op();
            if (is_any_of(op, {&ops::conv, &ops::conv_transpose, &ops::matmul, &ops::gemm,
                               &ops::attention})) {
              return true;
            }
            if (op == ops::gather && is_constant(*instruction.operands()[0])) {
              return instruction.operands()[0]->type().rank() == 2;  // a table
            }
            return reached &&
                   (is_elementwise(op) || is_pooling(op) || moves_elements(op) ||
                    is_any_of(
                        op,
                        {&ops::clip, &ops::gather, &ops::softmax, &ops::log_softmax,
                         &ops::matmul_n_bits, &ops::layer_normalization, &ops::rms_normalization,
                         &ops::simplified_layer_normalization, &ops::skip_layer_normalization,
                         &ops::skip_simplified_layer_normalization, &ops::batch_normalization,
                         &ops::reduce_mean, &ops::reduce_sum, &ops::refine, &ops::identity}));
          },
      .accepts = std::move(accepts),
      .with_states = true};
  if (to == ElementType::f16) {
    retyping.largest = kLargestF16;
    retyping.saturates = [](const Instruction& instruction) {
      return is_elementwise(instruction.op());
    };
  }
  // Masks stay as they are: their least value may be that of f32. So do scales of weights.
  retyping.keeps = [](const Instruction& instruction, size_t operand) {
    constexpr size_t kMask = 3;
    return (instruction.op() == ops::attention && operand >= kMask) ||
           (instruction.op() == ops::matmul_n_bits && operand > 0);
  };
  return retype("narrow_floats",
                "Computes products, convolutions and what stands between in 16-bit floats.",
                std::move(retyping));
}

}  // namespace lathe
