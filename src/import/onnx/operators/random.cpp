// SPDX-License-Identifier: MIT
#include <bit>

#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// Attribute seed, whose numbers are a sequence over the runs of a session. Without one, the name of
// the output: nodes differ, sessions do not.
int64_t seed_of(NodeImport& c) {
  if (c.has_attribute("seed")) {
    return std::bit_cast<int32_t>(static_cast<float>(c.number("seed")));
  }
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char letter : c.node.outputs.front()) {
    hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001B3;
  }
  return std::bit_cast<int64_t>(hash);
}

ElementType drawn_type(NodeImport& c) {
  if (c.has_attribute("dtype")) return c.element_type("dtype");
  const bool is_float = c.count() > 0 && (kFloats & type_bit(c.element(0))) != 0;
  return is_float ? c.element(0) : ElementType::f32;
}

}  // namespace

// RandomNormal, RandomUniform: attribute shape; …Like: the shape of input 0.
void import_random(NodeImport& c) {
  const bool normal = c.node.op_type.starts_with("RandomNormal");
  Value* shape = c.count() > 0 ? c.b("shape", {c.in(0)}) : c.b.integers(c.integers("shape"));
  c.plain(normal ? "random_normal" : "random_uniform", {shape, c.random_counter()},
          {{"dtype", drawn_type(c)}, {"seed", seed_of(c)}});
}

void import_multinomial(NodeImport& c) {
  c.plain({c.in(0), c.random_counter()}, {{"seed", seed_of(c)}});
}

// 1 where a uniform number is less than the probability. The comparison has 24 or 53 bits.
void import_bernoulli(NodeImport& c) {
  const ElementType type = c.element(0) == ElementType::f64 ? ElementType::f64 : ElementType::f32;
  const ElementType to = c.has_attribute("dtype") ? c.element_type("dtype") : c.element(0);
  Value* number = c.b("random_uniform", {c.b("shape", {c.in(0)}), c.random_counter()},
                      {{"dtype", type}, {"seed", seed_of(c)}});
  c.out(0, c.b.cast(c.b("less", {number, c.b.cast(c.in(0), type)}), to));
}

}  // namespace lathe::onnx
