// SPDX-License-Identifier: MIT
// The record that defines an op; everything else about the op is derived from it.
//
// An elementwise op is its formula:
//
//   static const Register relu{{
//       .name = "relu",
//       .doc = "max(x, 0).",
//       .operands = {{"x", kNumeric}},
//       .formula = [](const Formula& f) { return max(f.x(0), 0); },
//   }};
//
// A composite is its expansion into simpler ops; other ops have a reference evaluation. Control
// flow, literals and states are structural: the executor implements them.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/attribute.h"
#include "ir/expr.h"

namespace lathe {

class AffineMap;
class Infer;
class Instruction;
class Expansion;
class Evaluation;
class SymbolicMap;
class TokenStep;
class ViewRequest;
struct TokenAxis;

// A set of element types.
using TypeSet = uint32_t;
constexpr TypeSet type_bit(ElementType type) { return TypeSet{1} << static_cast<int>(type); }
template <class... T>
constexpr TypeSet types(T... list) {
  return (type_bit(list) | ...);
}
inline constexpr TypeSet kFloat8 =
    types(ElementType::f8e4m3fn, ElementType::f8e4m3fnuz, ElementType::f8e5m2,
          ElementType::f8e5m2fnuz, ElementType::f8e8m0, ElementType::f4e2m1);
inline constexpr TypeSet kFloats =
    types(ElementType::f32, ElementType::f64, ElementType::f16, ElementType::bf16);
inline constexpr TypeSet kSigned =
    types(ElementType::i8, ElementType::i16, ElementType::i32, ElementType::i64);
inline constexpr TypeSet kUnsigned =
    types(ElementType::u8, ElementType::u16, ElementType::u32, ElementType::u64);
inline constexpr TypeSet kIntegers = kSigned | kUnsigned;
inline constexpr TypeSet kNumeric = kFloats | kIntegers;
inline constexpr TypeSet kSmallInts =
    types(ElementType::i2, ElementType::i4, ElementType::u2, ElementType::u4);
inline constexpr TypeSet kBoolean = types(ElementType::boolean);
inline constexpr TypeSet kComplex = types(ElementType::c64, ElementType::c128);
inline constexpr TypeSet kString = types(ElementType::string);
inline constexpr TypeSet kIndices = types(ElementType::i32, ElementType::i64);
inline constexpr TypeSet kAnyType = ~TypeSet{0};

// variadic: last operand only, at least one
enum class Arity : uint8_t { one, optional, variadic };

struct OperandSpec {
  std::string_view name;
  TypeSet types = kAnyType;  // accepted element types (of tensors)
  Arity arity = Arity::one;
  char group = 0;  // operands of one group share their element type
  Type::Kind kind = Type::Kind::tensor;
  bool any_kind = false;  // identity, optional, if, loop: tensors, sequences and optionals
};

// An attribute with a default, or without one: required, or optional and absent.
struct AttributeSpec {
  AttributeSpec(std::string_view n, Attribute value)
      : name(n), kind(kind_of(value)), fallback(std::move(value)), has_fallback(true) {}
  AttributeSpec(std::string_view n, int value) : AttributeSpec(n, Attribute(int64_t{value})) {}
  AttributeSpec(std::string_view n, double value) : AttributeSpec(n, Attribute(value)) {}
  AttributeSpec(std::string_view n, bool value) : AttributeSpec(n, Attribute(value)) {}
  AttributeSpec(std::string_view n, const char* value)
      : AttributeSpec(n, Attribute(std::string(value))) {}
  AttributeSpec(std::string_view n, AttributeKind k, bool must = true)
      : name(n), kind(k), required(must) {}
  std::string_view name;
  AttributeKind kind;
  Attribute fallback;
  bool has_fallback = false;
  bool required = false;
};

enum Trait : uint32_t {
  kPure = 0,
  kImpure = 1,  // not folded, not merged: callbacks with effects of their own
  kCommutative = 2,
  kTakesUnranked = 4,  // `infer` handles operands of unknown rank
};

// How the executor treats a structural op.
enum class Structural : uint8_t {
  none,
  literal,
  dims,  // an integer tensor of dims, evaluated once their symbols are bound
  if_,
  loop,
  scan,
  state_read,
  state_append,
  state_replace,
};

// An index map (ops/index_map.h): one generic function for both of its uses.
struct IndexMapFunction {
  constexpr IndexMapFunction() = default;
  template <class F>
    requires(!std::same_as<F, IndexMapFunction>)
  IndexMapFunction(F map) : symbolic(map), affine(map) {}  // NOLINT: written as a lambda
  void (*symbolic)(SymbolicMap& m) = nullptr;
  void (*affine)(AffineMap& m) = nullptr;
  explicit operator bool() const { return symbolic != nullptr; }
};

// A result that is the next version of an operand's state, in the same memory.
struct StateUpdate {
  int operand = 0;
  int result = 0;
};

struct Op {
  ~Op();
  std::string_view name;
  std::string_view doc;  // one sentence
  std::vector<OperandSpec> operands{};
  std::vector<AttributeSpec> attributes{};
  // Operands whose elements the host reads before a launch: they determine shapes or loops.
  std::vector<int> on_host{};
  std::vector<StateUpdate> updates{};
  uint32_t traits = kPure;
  int results = 1;                         // -1: set by the builder (split, if, loop)
  std::vector<std::string_view> bodies{};  // names of its body modules
  Structural structural = Structural::none;

  // Elementwise ops without `infer` broadcast their operands. The result has the element type of
  // operand `result_like`, or `result_element` if that is not `string`.
  int result_like = 0;
  ElementType result_element = ElementType::string;

  void (*infer)(Infer& c) = nullptr;
  // Elementwise ops on small integer tensors: symbolic value of one element, from those of the
  // operands; nullopt if there is none.
  std::optional<Dim> (*dim_formula)(std::span<const Dim> x) = nullptr;

  // Ops with bodies. `capture` returns the operand that a body's parameter equals in every call, or
  // -1 for an iteration's own value. `bind_bodies` sets the types of body parameters from the
  // operands and infers the bodies.
  int (*capture)(const Instruction& instruction, int body, int parameter) = nullptr;
  void (*bind_bodies)(Instruction& instruction) = nullptr;

  // Semantics: exactly one of these, unless structural.
  Expr (*formula)(const Formula& f) = nullptr;
  void (*expand)(Expansion& e) = nullptr;
  void (*eval)(Evaluation& c) = nullptr;

  // For ops that only move elements: the operand and index from which each result element comes.
  IndexMapFunction map{};
  // How a token axis passes from operands to results, where neither `formula` nor `map` states it.
  TokenAxis (*tokens)(const TokenStep& s) = nullptr;

  // For ops whose result can be a strided view of the operand: sets the view and returns true, or
  // returns false if this operand must be copied (by `eval`).
  bool (*view)(ViewRequest& v) = nullptr;

  const AttributeSpec* find_attribute_spec(std::string_view attribute) const;
};

// Ops are compared by address. The build generates "ir/ops.h" with a reference to each op of
// src/ops: `instruction.op() == ops::transpose`.
inline bool operator==(const Op& a, const Op& b) { return &a == &b; }
inline bool is_any_of(const Op& op, std::initializer_list<const Op*> list) {
  return std::find(list.begin(), list.end(), &op) != list.end();
}

// Registers an op at program start; a duplicate name is an Internal error.
class Register {
 public:
  explicit Register(Op op);
};

const Op* find_op(std::string_view name);
// The op of this name; InvalidArgument with the nearest name if unknown.
const Op& get_op(std::string_view name);
std::vector<const Op*> all_ops();  // sorted by name

}  // namespace lathe
