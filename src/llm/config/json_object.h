// SPDX-License-Identifier: MIT
// JSON objects whose keys must all be known.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace lathe::llm {

using Json = nlohmann::json;
using lathe::parse_json;

// Reads members by name; `finish` refuses those never read, with the nearest known name. Null
// counts as absent. Messages contain the path: "model.decoder.head_size".
class JsonObject {
 public:
  // InvalidModel unless `value` is an object.
  JsonObject(const Json& value, std::string place);

  const std::string& place() const { return place_; }
  std::string place(std::string_view key) const;
  bool has(std::string_view key);

  // Absent members leave `to` unchanged; another type or range is InvalidModel.
  void read(std::string_view key, std::string& to);
  void read(std::string_view key, bool& to);
  void read(std::string_view key, double& to);
  void read(std::string_view key, int64_t& to, int64_t least = 0);
  void read(std::string_view key, std::optional<int64_t>& to, int64_t least = 0);
  void read(std::string_view key, std::vector<int64_t>& to);  // an integer or a list
  void read(std::string_view key, std::vector<std::string>& to);
  // All members of an object of strings, numbers and booleans, as strings.
  void read(std::string_view key, std::map<std::string, std::string>& to);
  // The object's strings by key; every key must be in `known`.
  void read_names(std::string_view key, std::map<std::string, std::string>& to,
                  std::initializer_list<std::string_view> known);
  std::optional<JsonObject> object(std::string_view key);
  const Json* member(std::string_view key);

  // Unsupported if one of the keys is present.
  void refuse(std::initializer_list<std::string_view> keys);
  // Members not read so far, as strings; marks them as read.
  std::map<std::string, std::string> rest();
  void finish() const;

 private:
  [[noreturn]] void wrong(std::string_view key, const Json& value, std::string_view expected) const;
  const Json* value_;
  std::string place_;
  std::vector<std::string_view> read_keys_;
};

}  // namespace lathe::llm
