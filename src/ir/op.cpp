// SPDX-License-Identifier: MIT
#include "ir/op.h"

#include <map>

#include "base/error.h"

namespace lathe {
namespace {

// Ordered by name; filled by static initialisers in src/ops.
std::map<std::string_view, Op>& registry() {
  static std::map<std::string_view, Op> ops;
  return ops;
}

}  // namespace

Op::~Op() = default;

const AttributeSpec* Op::find_attribute_spec(std::string_view attribute) const {
  for (const AttributeSpec& spec : attributes) {
    if (spec.name == attribute) return &spec;
  }
  return nullptr;
}

Register::Register(Op op) {
  const std::string_view name = op.name;
  const bool added = registry().emplace(name, std::move(op)).second;
  check(added, ErrorKind::internal, "op '{}' is registered twice", name);
}

const Op* find_op(std::string_view name) {
  const auto at = registry().find(name);
  return at == registry().end() ? nullptr : &at->second;
}

const Op& get_op(std::string_view name) {
  const Op* op = find_op(name);
  if (op == nullptr) {
    std::vector<std::string_view> names;
    for (const auto& [known, record] : registry()) names.push_back(known);
    fail(ErrorKind::invalid_argument, "unknown op '{}'{}", escape(name), did_you_mean(name, names));
  }
  return *op;
}

std::vector<const Op*> all_ops() {
  std::vector<const Op*> ops;
  for (const auto& [name, op] : registry()) ops.push_back(&op);
  return ops;
}

}  // namespace lathe
