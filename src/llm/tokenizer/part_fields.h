// SPDX-License-Identifier: MIT
// Reads fields of a JSON object of tokenizer.json. Errors name them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace lathe::tokenizer {

class PartFields {
 public:
  PartFields(const nlohmann::json& element, std::string_view where)
      : element_(element), where_(where) {
    check(element.is_object(), ErrorKind::invalid_model, "{}: expected an object, found {}", where_,
          element.type_name());
  }

  const std::string& where() const { return where_; }
  // nullptr for a missing or null field.
  const nlohmann::json* find(const char* key) const {
    const auto it = element_.find(key);
    return it == element_.end() || it->is_null() ? nullptr : &*it;
  }
  const nlohmann::json& at(const char* key) const {
    const nlohmann::json* const value = find(key);
    check(value != nullptr, ErrorKind::invalid_model, "{}: '{}' is missing", where_, key);
    return *value;
  }
  const std::string& string(const char* key) const {
    const nlohmann::json& value = at(key);
    check(value.is_string(), ErrorKind::invalid_model, "{}.{}: expected a string, found {}", where_,
          key, value.type_name());
    return value.get_ref<const std::string&>();
  }
  bool boolean(const char* key, bool otherwise) const {
    const nlohmann::json* const value = find(key);
    if (value == nullptr) return otherwise;
    check(value->is_boolean(), ErrorKind::invalid_model, "{}.{}: expected true or false, found {}",
          where_, key, value->type_name());
    return value->get<bool>();
  }
  // The elements of an array.
  const nlohmann::json& array(const char* key) const {
    const nlohmann::json& value = at(key);
    check(value.is_array(), ErrorKind::invalid_model, "{}.{}: expected an array, found {}", where_,
          key, value.type_name());
    return value;
  }
  std::string place(const char* key) const { return fmt::format("{}.{}", where_, key); }
  std::string place(const char* key, size_t index) const {
    return fmt::format("{}.{}[{}]", where_, key, index);
  }

 private:
  const nlohmann::json& element_;
  std::string where_;
};

}  // namespace lathe::tokenizer
