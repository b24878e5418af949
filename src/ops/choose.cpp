// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

constexpr TypeSet kMovable = kAnyType & ~(kNumeric | kBoolean);

void eval_choose(Evaluation& c) {
  const UnpackedOperand unpacked_a(c.in(1));
  const UnpackedOperand unpacked_b(c.in(2));
  const UnpackedResult result(c.out(0, broadcast_extents(c)));
  const TensorView& out = result.view();
  const TensorView condition = broadcast_to(c.in(0), out.extents());
  const TensorView a = broadcast_to(unpacked_a.view(), out.extents());
  const TensorView b = broadcast_to(unpacked_b.view(), out.extents());
  with_raw_type(out.type, [&]<class T>(T*) {
    for_each_index(out.extents(), [&](std::span<const int64_t> at) {
      const bool first = condition.as<uint8_t>()[offset_of(condition, at)] != 0;
      const TensorView& from = first ? a : b;
      out.as<T>()[offset_of(out, at)] = from.as<T>()[offset_of(from, at)];
    });
  });
  result.store();
}

}  // namespace

static const Register choose{{
    .name = "choose",
    .doc = "a where the condition is true, else b: `where` for element types without formulas.",
    .operands = {{"condition", kBoolean},
                 {"a", kMovable, Arity::one, 'T'},
                 {"b", kMovable, Arity::one, 'T'}},
    .infer = [](Infer& c) { c.result(c.element(1), c.broadcast_operands()); },
    .eval = eval_choose,
}};

}  // namespace lathe
