// SPDX-License-Identifier: MIT
// The configuration of a checkpoint: an object of values by the names of Transformers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe::checkpoint {

// Reads values of an object; null counts as absent. InvalidModel for another type, with the place.
class Config {
 public:
  using Json = nlohmann::json;

  Config() : values_(Json::object()) {}
  explicit Config(Json values, std::string place = "");

  const Json& values() const { return values_; }
  void set(const std::string& name, Json value) { values_[name] = std::move(value); }
  // Keeps a value that is present.
  void set_default(const std::string& name, Json value);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Between `least` and 2^31 - 1. Without a fallback the value must be present.
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  double number(std::string_view name, double fallback) const;
  bool flag(std::string_view name, bool fallback) const;
  std::string text(std::string_view name, std::string_view fallback = "") const;
  // Empty without the value.
  std::vector<double> numbers(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  Config object(std::string_view name) const;

 private:
  const Json* find(std::string_view name) const;
  [[noreturn]] void wrong(std::string_view name, const Json& value,
                          std::string_view expected) const;
  int64_t checked(std::string_view name, const Json& value) const;

  Json values_;
  std::string place_;  // of the object in its document
};

// Parses a config.json of Transformers 4 or 5 and converts it to one form: the text part of a
// multimodal model, `model_type` of that part, rope_parameters in place of rope_theta and
// rope_scaling. `name` is for messages.
Config read_hf_config(std::string_view json, std::string_view name);

}  // namespace lathe::checkpoint
