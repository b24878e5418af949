// SPDX-License-Identifier: MIT
#include "ir/structure.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "ir/op.h"

namespace lathe {
namespace {

// Bytes of a literal that its hash reads: weights of equal shapes differ here, and the rest of a
// large file need not be loaded.
constexpr int64_t kHashedBytes = 64;

void mix(size_t& hash, size_t more) {
  hash ^= more + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
}

uint64_t bits_of(double number) { return std::bit_cast<uint64_t>(number); }

size_t hash_of(const Attribute& attribute) {
  size_t hash = attribute.index();
  if (const auto* integer = std::get_if<int64_t>(&attribute)) {
    mix(hash, std::hash<int64_t>()(*integer));
  } else if (const auto* number = std::get_if<double>(&attribute)) {
    mix(hash, std::hash<uint64_t>()(bits_of(*number)));
  } else if (const auto* text = std::get_if<std::string>(&attribute)) {
    mix(hash, std::hash<std::string>()(*text));
  } else if (const auto* integers = std::get_if<Integers>(&attribute)) {
    for (const int64_t entry : *integers) mix(hash, std::hash<int64_t>()(entry));
  } else if (const auto* dims = std::get_if<std::vector<Dim>>(&attribute)) {
    for (const Dim& dim : *dims) mix(hash, std::hash<int64_t>()(dim.constant().value_or(-1)));
  }
  return hash;  // the other kinds by their kind alone
}

bool equal(const Attribute& a, const Attribute& b) {
  if (const auto* number = std::get_if<double>(&a)) {
    const auto* other = std::get_if<double>(&b);
    return other != nullptr && bits_of(*number) == bits_of(*other);
  }
  if (const auto* numbers = std::get_if<Numbers>(&a)) {
    const auto* others = std::get_if<Numbers>(&b);
    return others != nullptr && std::ranges::equal(*numbers, *others, {}, bits_of, bits_of);
  }
  return a == b;
}

size_t hash_of(const Literal& literal) {
  const Tensor& tensor = literal.tensor;
  size_t hash = static_cast<size_t>(tensor.type());
  for (const int64_t extent : tensor.dims()) mix(hash, std::hash<int64_t>()(extent));
  if (tensor.type() == ElementType::string || !tensor.is_dense()) return hash;
  const auto bytes = static_cast<size_t>(std::min(tensor.byte_size(), kHashedBytes));
  mix(hash, std::hash<std::string_view>()({tensor.as<char>(), bytes}));
  return hash;
}

bool equal(const LiteralRef& a, const LiteralRef& b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->bindable || b->bindable) return false;
  const Tensor& x = a->tensor;
  const Tensor& y = b->tensor;
  if (x.type() != y.type() || x.dims() != y.dims()) return false;
  if (x.type() == ElementType::string) {
    return std::ranges::equal(x.dense().elements<std::string>(), y.dense().elements<std::string>());
  }
  if (!x.is_dense() || !y.is_dense()) return false;
  return x.data() == y.data() ||
         std::memcmp(x.data(), y.data(), static_cast<size_t>(x.byte_size())) == 0;
}

}  // namespace

size_t structural_hash(const Instruction& instruction) {
  size_t hash = std::hash<const Op*>()(&instruction.op());
  for (const Value* operand : instruction.operands()) {
    mix(hash, std::hash<const Value*>()(operand));
  }
  for (const auto& [name, attribute] : instruction.attributes()) {
    mix(hash, std::hash<std::string>()(name));
    mix(hash, hash_of(attribute));
  }
  if (instruction.literal() != nullptr) mix(hash, hash_of(*instruction.literal()));
  return hash;
}

bool structurally_equal(const Instruction& a, const Instruction& b) {
  if (&a == &b) return true;
  const auto plain = [](const Instruction& i) {
    return i.bodies().empty() && i.found().empty() && i.implements() == nullptr;
  };
  const auto same_attribute = [](const auto& x, const auto& y) {
    return x.first == y.first && equal(x.second, y.second);
  };
  const auto same_type = [](const Value& x, const Value& y) { return x.type() == y.type(); };
  return plain(a) && plain(b) && a.op() == b.op() && a.operands() == b.operands() &&
         a.deferred() == b.deferred() && a.target() == b.target() &&
         std::ranges::equal(a.attributes(), b.attributes(), same_attribute) &&
         std::ranges::equal(a.results(), b.results(), same_type) && equal(a.literal(), b.literal());
}

}  // namespace lathe
