// SPDX-License-Identifier: MIT
#include "ir/op.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "base/error.h"
#include "ir/ops.h"

namespace lathe {

static_assert(std::ranges::is_sorted(ops::kNames));

// Static initialisers in src/ops fill these in, in any order.
constinit Op ops::records[ops::kCount]{};

namespace {

// Ordered by name; filled by the same initialisers.
std::map<std::string_view, const Op*>& registry() {
  static std::map<std::string_view, const Op*> ops;
  return ops;
}

// Programs may register ops while others compile.
std::shared_mutex& registry_mutex() {
  static std::shared_mutex mutex;
  return mutex;
}

// The record of this name in the generated list; tests register ops that are not in it.
Op& record_of(std::string_view name) {
  static std::deque<Op> others;
  const auto at = std::ranges::lower_bound(ops::kNames, name);
  if (at == std::end(ops::kNames) || *at != name) return others.emplace_back();
  return ops::records[at - std::begin(ops::kNames)];
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
  const std::unique_lock lock(registry_mutex());
  check(!registry().contains(name), ErrorKind::internal, "op '{}' is registered twice", name);
  Op& record = record_of(name);
  record = std::move(op);
  registry().emplace(name, &record);
}

const Op* find_op(std::string_view name) {
  const std::shared_lock lock(registry_mutex());
  const auto at = registry().find(name);
  return at == registry().end() ? nullptr : at->second;
}

const Op& get_op(std::string_view name) {
  const Op* op = find_op(name);
  if (op == nullptr) {
    std::vector<std::string_view> names;
    for (const Op* known : all_ops()) names.push_back(known->name);
    fail(ErrorKind::invalid_argument, "unknown op '{}'{}", escape(name), did_you_mean(name, names));
  }
  return *op;
}

std::vector<const Op*> all_ops() {
  std::vector<const Op*> ops;
  const std::shared_lock lock(registry_mutex());
  for (const auto& [name, op] : registry()) ops.push_back(op);
  return ops;
}

}  // namespace lathe
