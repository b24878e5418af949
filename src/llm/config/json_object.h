// SPDX-License-Identifier: MIT
// JSON objects whose every key must be known.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lathe::llm {

using Json = nlohmann::json;

// Reads members by name; `finish` complains of those that nobody asked for, with the nearest known
// one. Null counts as absent. Messages name the place: "model.decoder.head_size".
class JsonObject {
 public:
  // InvalidModel unless `value` is an object.
  JsonObject(const Json& value, std::string place);

  const std::string& place() const { return place_; }
  std::string place(std::string_view key) const;
  bool has(std::string_view key);

  // Absent members leave `to` as it is; members of another type or range are InvalidModel.
  void read(std::string_view key, std::string& to);
  void read(std::string_view key, bool& to);
  void read(std::string_view key, double& to);
  void read(std::string_view key, int64_t& to, int64_t least = 0);
  void read(std::string_view key, std::optional<int64_t>& to, int64_t least = 0);
  void read(std::string_view key, std::vector<int64_t>& to);  // an integer or a list
  void read(std::string_view key, std::vector<std::string>& to);
  // All members of an object of texts, numbers and booleans, as texts.
  void read(std::string_view key, std::map<std::string, std::string>& to);
  // The object's texts by key, each of which must be one of `known`.
  void read_names(std::string_view key, std::map<std::string, std::string>& to,
                  std::initializer_list<std::string_view> known);
  std::optional<JsonObject> object(std::string_view key);
  const Json* member(std::string_view key);

  // Unsupported if the key is there.
  void refuse(std::initializer_list<std::string_view> keys);
  // Members that nobody asked for, as texts; afterwards they count as asked for.
  std::map<std::string, std::string> rest();
  void finish() const;

 private:
  [[noreturn]] void wrong(std::string_view key, const Json& value, std::string_view expected) const;
  const Json* value_;
  std::string place_;
  std::vector<std::string_view> asked_;
};

// A JSON document. InvalidModel says where it breaks off; `name` is for messages.
Json parse_json(std::string_view text, std::string_view name);

}  // namespace lathe::llm
