// SPDX-License-Identifier: MIT
// Reads elements of tokenizer files. Errors name the element by its path.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "llm/tokenizer/vocabulary.h"

namespace lathe::tokenizer {

using Json = nlohmann::json;

inline std::string json_path(std::string_view where, std::string_view name) {
  return fmt::format("{}.{}", where, escape(name));
}
inline std::string json_path(std::string_view where, size_t index) {
  return fmt::format("{}[{}]", where, index);
}

// nullptr for an absent or null field.
inline const Json* find_field(const Json& object, std::string_view name, std::string_view where) {
  check(object.is_object(), ErrorKind::invalid_model, "{} is {}, expected an object", where,
        object.type_name());
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}
inline const Json& get_field(const Json& object, std::string_view name, std::string_view where) {
  const Json* field = find_field(object, name, where);
  check(field != nullptr, ErrorKind::invalid_model, "{} has no '{}'", where, name);
  return *field;
}

inline std::string to_text(const Json& value, std::string_view where) {
  check(value.is_string(), ErrorKind::invalid_model, "{} is {}, expected a string", where,
        value.type_name());
  return value.get<std::string>();
}
inline bool to_flag(const Json& value, std::string_view where) {
  check(value.is_boolean(), ErrorKind::invalid_model, "{} is {}, expected true or false", where,
        value.type_name());
  return value.get<bool>();
}
inline uint64_t to_count(const Json& value, std::string_view where,
                         uint64_t most = std::numeric_limits<uint64_t>::max()) {
  check(value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0),
        ErrorKind::invalid_model, "{} is {}, expected an integer of at least 0", where,
        escape(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60));
  const auto count = value.get<uint64_t>();
  check(count <= most, ErrorKind::invalid_model, "{} is {}, expected at most {}", where, count,
        most);
  return count;
}
inline uint32_t to_id(const Json& value, std::string_view where) {
  return static_cast<uint32_t>(to_count(value, where, kMaxId));
}

inline std::string text_field(const Json& object, std::string_view name, std::string_view where) {
  return to_text(get_field(object, name, where), json_path(where, name));
}
inline std::optional<std::string> optional_text(const Json& object, std::string_view name,
                                                std::string_view where) {
  const Json* field = find_field(object, name, where);
  if (field == nullptr) return std::nullopt;
  return to_text(*field, json_path(where, name));
}
inline bool flag_field(const Json& object, std::string_view name, std::string_view where) {
  return to_flag(get_field(object, name, where), json_path(where, name));
}
inline bool flag_field(const Json& object, std::string_view name, std::string_view where,
                       bool otherwise) {
  const Json* field = find_field(object, name, where);
  return field == nullptr ? otherwise : to_flag(*field, json_path(where, name));
}
inline const Json& array_field(const Json& object, std::string_view name, std::string_view where) {
  const Json& field = get_field(object, name, where);
  check(field.is_array(), ErrorKind::invalid_model, "{} is {}, expected an array",
        json_path(where, name), field.type_name());
  return field;
}

}  // namespace lathe::tokenizer
