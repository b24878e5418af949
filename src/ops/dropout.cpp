// SPDX-License-Identifier: MIT
// Elements are sampled in row-major order. Each sample in [0, 1) has 53 bits, from two numbers of
// the generator.
#include <random>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/token_step.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

void eval_dropout(Evaluation& c) {
  const bool training = c.has(2) && c.values(2).at(0) != 0;
  const double ratio = c.has(1) ? load_double(c.in(1).type, c.in(1).data, 0) : 0.5;
  c.check(!training || (ratio >= 0 && ratio < 1), "ratio is {}, expected 0 up to 1", ratio);
  const ElementType type = arithmetic_type(c.in(0).type);
  const ConvertedOperand x(c.in(0), type);
  const ConvertedResult y(c.out(0), type);
  const TensorView& mask = c.out(1);
  std::mt19937 generator(static_cast<uint32_t>(c.integer("seed")));
  const auto draw = [&] {
    const uint64_t high = generator() >> 5;
    const uint64_t low = generator() >> 6;
    return static_cast<double>((high << 26) + low) * 0x1p-53;
  };
  with_number_type(type, [&]<class T>(T*) {
    const auto scale = static_cast<T>(training ? 1 / (1 - ratio) : 1);
    for_each_index(x.view().extents(), [&](std::span<const int64_t> at) {
      const bool kept = !training || draw() >= ratio;
      const T value = x.view().template as<T>()[offset_of(x.view(), at)];
      y.view().template as<T>()[offset_of(y.view(), at)] =
          kept ? static_cast<T>(value * scale) : T{};
      mask.as<bool>()[offset_of(mask, at)] = kept;
    });
  });
  y.store();
}

}  // namespace

static const Register dropout{{
    .name = "dropout",
    .doc = "In training, zeroes each element with probability `ratio`, scales others by "
           "1/(1 - ratio), sampled by the Mersenne Twister from `seed`; also returns the mask of "
           "kept elements.",
    .operands = {{"x", kFloats | kFloat8},
                 {"ratio", kFloats | kFloat8, Arity::optional},
                 {"training_mode", kBoolean, Arity::optional}},
    .attributes = {{"seed", AttributeKind::integer}},
    .on_host = {1, 2},
    .results = 2,
    .infer =
        [](Infer& c) {
          for (int i = 1; i < c.count(); ++i) {
            if (!c.has(i)) continue;
            c.check(element_count(c.dims(i)) == Dim(1), "operand {} is {}, expected one", i,
                    c.type(i).to_string());
          }
          c.result(c.element(0), c.dims(0));
          c.result(ElementType::boolean, c.dims(0));
        },
    .eval = eval_dropout,
    .tokens = elementwise_tokens,
}};

}  // namespace lathe
