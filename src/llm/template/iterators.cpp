// SPDX-License-Identifier: MIT
#include "llm/template/iterators.h"

#include "llm/template/attributes.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

std::string_view reversed_name(Type type) {
  switch (type) {
    case Type::list:
      return "list_reverseiterator";
    case Type::dict:
      return "dict_reversekeyiterator";
    case Type::dict_view:
      return "dict_reverseiterator";
    case Type::range:
      return "range_iterator";
    default:
      return "reversed";
  }
}

}  // namespace

bool is_reversible(const Value& value) { return has_length(value) && !value.is(Type::callable); }

Ref<Iterator> reversed(const Value& value) {
  if (!is_reversible(value)) {
    raise(Exception::type, "'{}' object is not reversible", type_name(value));
  }
  if (value.is_string()) {
    return make<Iterator>(
        [value, at = value.text().size()](Value& item) mutable {
          if (at == 0) return false;
          const size_t end = at;
          at = previous_character(value.text(), end);
          item = Value::string(std::string(value.text().substr(at, end - at)));
          return true;
        },
        "reversed");
  }
  const bool has_items = value.is_sequence() || value.is(Type::range) || value.is_undefined();
  const Value items = has_items ? value : Value::list(to_vector(value));
  return make<Iterator>(
      [items, at = length_of(items)](Value& item) mutable {
        if (at == 0) return false;
        item = python_item(items, Value::integer(--at));
        return true;
      },
      reversed_name(value.type()));
}

}  // namespace lathe::templates
