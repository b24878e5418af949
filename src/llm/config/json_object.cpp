// SPDX-License-Identifier: MIT
#include "llm/config/json_object.h"

#include <algorithm>
#include <limits>

namespace lathe::llm {
namespace {

std::string dump(const Json& value) {
  return escape(value.dump(-1, ' ', false, Json::error_handler_t::replace), 120);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump(value);
}

}  // namespace

JsonObject::JsonObject(const Json& value, std::string place)
    : value_(&value), place_(std::move(place)) {
  if (value.is_object()) return;
  fail(ErrorKind::invalid_model, "{} is {}, expected an object",
       place_.empty() ? "the document" : fmt::format("'{}'", place_), dump(value));
}

std::string JsonObject::place(std::string_view key) const {
  return place_.empty() ? std::string(key) : fmt::format("{}.{}", place_, key);
}

const Json* JsonObject::member(std::string_view key) {
  read_keys_.push_back(key);
  const auto at = value_->find(key);
  return at == value_->end() || at->is_null() ? nullptr : &*at;
}

bool JsonObject::has(std::string_view key) { return member(key) != nullptr; }

void JsonObject::wrong(std::string_view key, const Json& value, std::string_view expected) const {
  fail(ErrorKind::invalid_model, "'{}' is {}, expected {}", place(key), dump(value), expected);
}

void JsonObject::read(std::string_view key, std::string& to) {
  if (const Json* value = member(key)) {
    if (!value->is_string()) wrong(key, *value, "a string");
    to = value->get<std::string>();
  }
}

void JsonObject::read(std::string_view key, bool& to) {
  if (const Json* value = member(key)) {
    if (!value->is_boolean()) wrong(key, *value, "true or false");
    to = value->get<bool>();
  }
}

void JsonObject::read(std::string_view key, double& to) {
  if (const Json* value = member(key)) {
    if (!value->is_number()) wrong(key, *value, "a number");
    to = value->get<double>();
  }
}

void JsonObject::read(std::string_view key, int64_t& to, int64_t least) {
  std::optional<int64_t> given;
  read(key, given, least);
  if (given) to = *given;
}

void JsonObject::read(std::string_view key, std::optional<int64_t>& to, int64_t least) {
  const Json* value = member(key);
  if (value == nullptr) return;
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() ||
                     value->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits || value->get<int64_t>() < least) {
    wrong(key, *value, fmt::format("an integer from {} on", least));
  }
  to = value->get<int64_t>();
}

void JsonObject::read(std::string_view key, std::vector<int64_t>& to) {
  const Json* value = member(key);
  if (value == nullptr) return;
  to.clear();
  for (const Json& element : value->is_array() ? *value : Json::array({*value})) {
    if (!element.is_number_integer()) wrong(key, *value, "an integer or a list of integers");
    to.push_back(element.get<int64_t>());
  }
}

void JsonObject::read(std::string_view key, std::vector<std::string>& to) {
  const Json* value = member(key);
  if (value == nullptr) return;
  to.clear();
  if (!value->is_array()) wrong(key, *value, "a list of strings");
  for (const Json& element : *value) {
    if (!element.is_string()) wrong(key, *value, "a list of strings");
    to.push_back(element.get<std::string>());
  }
}

void JsonObject::read(std::string_view key, std::map<std::string, std::string>& to) {
  const Json* value = member(key);
  if (value == nullptr) return;
  if (!value->is_object()) wrong(key, *value, "an object");
  for (const auto& [name, element] : value->items()) to[name] = text_of(element);
}

void JsonObject::read_names(std::string_view key, std::map<std::string, std::string>& to,
                            std::initializer_list<std::string_view> known) {
  std::optional<JsonObject> names = object(key);
  if (!names) return;
  for (const std::string_view name : known) {
    std::string text;
    if (!names->has(name)) continue;
    names->read(name, text);
    to[std::string(name)] = text;
  }
  names->finish();
}

std::optional<JsonObject> JsonObject::object(std::string_view key) {
  const Json* value = member(key);
  if (value == nullptr) return std::nullopt;
  return JsonObject(*value, place(key));
}

void JsonObject::refuse(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    check(!has(key), ErrorKind::unsupported, "'{}' is not supported", place(key));
  }
}

std::map<std::string, std::string> JsonObject::rest() {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::find(read_keys_, key) != read_keys_.end()) continue;
    texts[key] = text_of(value);
  }
  // The document owns the keys.
  for (auto at = value_->begin(); at != value_->end(); ++at) read_keys_.emplace_back(at.key());
  return texts;
}

void JsonObject::finish() const {
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::find(read_keys_, key) != read_keys_.end()) continue;
    fail(ErrorKind::invalid_model, "unknown key '{}'{}", escape(place(key)),
         did_you_mean(key, read_keys_));
  }
}

}  // namespace lathe::llm
