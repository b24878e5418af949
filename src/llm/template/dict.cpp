// SPDX-License-Identifier: MIT
// Equality, hashes and dict.
#include <cmath>
#include <functional>

#include "llm/template/budget.h"
#include "llm/template/value.h"

namespace lathe::templates {
namespace {

// Below this size a linear search over the hashes is faster than an index.
constexpr size_t kIndexFrom = 16;

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  const int64_t length = a.length();
  if (length != b.length()) return false;
  return length == 0 || (a.start == b.start && (length == 1 || a.step == b.step));
}

bool equal_views(const Value& a, const Value& b) {
  if (a.object() == b.object()) return true;
  const DictView& left = a.view();
  const DictView& right = b.view();
  if (left.kind == DictView::Kind::values || right.kind == DictView::Kind::values) return false;
  if (left.of->entries.size() != right.of->entries.size() || left.kind != right.kind) return false;
  if (left.kind == DictView::Kind::items) return equal_dicts(*left.of, *right.of);
  for (const auto& entry : left.of->entries) {
    if (right.of->find(entry.first) == nullptr) return false;
  }
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.whole() == b.whole();
  if (a.is(Type::real) && b.is(Type::real)) return a.number() == b.number();
  // An integer equals a float only if the conversion is exact.
  const double real = a.is(Type::real) ? a.number() : b.number();
  const int64_t whole = a.is(Type::real) ? b.whole() : a.whole();
  if (!(real >= -0x1p63 && real < 0x1p63)) return false;
  return std::trunc(real) == real && static_cast<int64_t>(real) == whole;
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  step(1);
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.type() != b.type()) return false;
  const Level level;
  switch (a.type()) {
    case Type::missing:
    case Type::undefined:
    case Type::none:
      return true;
    case Type::string:
      step_text(a.text().size());
      return a.text() == b.text();
    case Type::list:
    case Type::tuple:
      return equal_items(a.items(), b.items());
    case Type::dict:
      return equal_dicts(a.dict(), b.dict());
    case Type::range:
      return equal_ranges(a.range(), b.range());
    case Type::dict_view:
      return equal_views(a, b);
    default:
      return a.object() == b.object();
  }
}

size_t hash(const Value& value) {
  const Level level;
  switch (value.type()) {
    case Type::boolean:
    case Type::integer:
      return std::hash<int64_t>()(value.whole());
    case Type::real: {
      const double number = value.number();
      if (number >= -0x1p63 && number < 0x1p63 && std::trunc(number) == number) {
        return std::hash<int64_t>()(static_cast<int64_t>(number));
      }
      return std::hash<double>()(number);
    }
    case Type::string:
      step_text(value.text().size());
      return std::hash<std::string_view>()(value.text());
    case Type::tuple: {
      size_t sum = 0x345678;
      for (const Value& item : value.items()) sum = sum * 1000003 + hash(item);
      return sum;
    }
    case Type::list:
    case Type::dict:
      raise(Exception::type, "unhashable type: '{}'", type_name(value));
    case Type::dict_view:
      if (value.view().kind != DictView::Kind::values) {
        raise(Exception::type, "unhashable type: '{}'", type_name(value));
      }
      return std::hash<const void*>()(value.object());
    case Type::range:
      return std::hash<int64_t>()(value.range().length());
    case Type::missing:
    case Type::undefined:
    case Type::none:
      return static_cast<size_t>(value.type());
    default:
      return std::hash<const void*>()(value.object());
  }
}

ptrdiff_t Dict::place(const Value& key, size_t key_hash) const {
  const auto is_key = [&](size_t i) {
    return hashes_[i] == key_hash && equal(entries[i].first, key);
  };
  if (index_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (is_key(i)) return static_cast<ptrdiff_t>(i);
    }
    return -1;
  }
  const auto [first, last] = index_.equal_range(key_hash);
  for (auto at = first; at != last; ++at) {
    if (is_key(at->second)) return static_cast<ptrdiff_t>(at->second);
  }
  return -1;
}

const Value* Dict::find(const Value& key) const {
  const ptrdiff_t at = place(key, hash(key));
  return at < 0 ? nullptr : &entries[static_cast<size_t>(at)].second;
}

const Value* Dict::find(std::string_view key) const {
  const size_t key_hash = std::hash<std::string_view>()(key);
  const auto is_key = [&](size_t i) {
    return hashes_[i] == key_hash && entries[i].first.is_string() && entries[i].first.text() == key;
  };
  if (index_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (is_key(i)) return &entries[i].second;
    }
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(key_hash);
  for (auto at = first; at != last; ++at) {
    if (is_key(at->second)) return &entries[at->second].second;
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  const size_t key_hash = hash(key);
  if (const ptrdiff_t at = place(key, key_hash); at >= 0) {
    entries[static_cast<size_t>(at)].second = std::move(value);
    return;
  }
  charge(sizeof(entries[0]) + 8 * sizeof(size_t));
  entries.emplace_back(key, std::move(value));
  hashes_.push_back(key_hash);
  if (!index_.empty()) {
    index_.emplace(key_hash, entries.size() - 1);
  } else if (entries.size() > kIndexFrom) {
    for (size_t i = 0; i < entries.size(); ++i) index_.emplace(hashes_[i], i);
  }
}

void Dict::set(std::string_view key, Value value) {
  set(Value::string(std::string(key)), std::move(value));
}

}  // namespace lathe::templates
