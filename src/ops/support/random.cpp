// SPDX-License-Identifier: MIT
#include "ops/support/random.h"

#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/requirements.h"
#include "ops/support/symbolic.h"

namespace lathe {

std::vector<OperandSpec> random_operands() {
  return {{"shape", kIndices}, {"counter", types(ElementType::i64)}};
}

std::vector<AttributeSpec> random_attributes(const char* first, double a, const char* second,
                                             double b) {
  return {{first, a}, {second, b}, {"seed", 0}, {"dtype", Attribute(ElementType::f32)}};
}

void infer_random(Infer& c) {
  const ElementType element = require_element_type(c, "dtype", kFloats, "a float");
  require_rank(c, 1, 0);
  if (const std::vector<Dim>* shape = c.elements(0)) {
    for (const Dim& extent : *shape) {
      c.check(!extent.is_constant() || *extent.constant() >= 0, "shape value {} is negative",
              extent.to_string());
    }
    return c.result(element, *shape);
  }
  auto dims = found_dims(c, known_length(c, 0), "shape");
  c.result(dims ? Type::tensor(element, std::move(*dims)) : Type::unranked(element));
}

PhiloxBlock random_bits(const Evaluation& c, int64_t i) {
  const auto element = static_cast<uint64_t>(i);
  const auto counter = static_cast<uint64_t>(*c.in(1).as<int64_t>());
  return philox({static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32),
                 static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32)},
                static_cast<uint64_t>(c.integer("seed")));
}

double uniform_53(const PhiloxBlock& bits) {
  return static_cast<double>((uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;
}

double uniform_24(const PhiloxBlock& bits) { return static_cast<double>(bits[0] >> 8) * 0x1p-24; }

void eval_random(Evaluation& c, double (*draw)(const Evaluation& c, const PhiloxBlock& bits)) {
  const Dims dims = c.values(0);
  for (const int64_t extent : dims) c.check(extent >= 0, "size {} is negative", extent);
  const TensorView& target = c.out(0, dims);
  const ConvertedResult out(target, arithmetic_type(target.type));
  with_number_type(out.view().type, [&]<class T>(T*) {
    int64_t i = 0;
    for_each_index(dims, [&](std::span<const int64_t> at) {
      out.view().as<T>()[offset_of(out.view(), at)] = static_cast<T>(draw(c, random_bits(c, i++)));
    });
  });
  out.store();
}

}  // namespace lathe
