// SPDX-License-Identifier: MIT
// The configuration of a checkpoint: an object of values by the names of Transformers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
  // Above `least`, and neither 0 nor infinite as f32: a factor, a divisor or an epsilon.
  double above(double least, std::string_view name, double fallback) const;
  double above_zero(std::string_view name, double fallback) const {
    return above(0, name, fallback);
  }
  double above_zero(std::string_view name) const;  // must be present
  // An integer above 0, as integer() reads it.
  int64_t count(std::string_view name, int64_t fallback) const;
  bool flag(std::string_view name, bool fallback) const;
  std::string text(std::string_view name, std::string_view fallback = "") const;
  // Empty without the value.
  std::vector<double> numbers(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  // A token or a list of tokens; below `vocabulary`, unless that is 0.
  std::vector<int64_t> tokens(std::string_view name, int64_t vocabulary) const;
  Config object(std::string_view name) const;

  // For messages: the document's file, and what the values of this form are called in it, from
  // their paths here ("rope_parameters.factor").
  using Names = std::map<std::string, std::string, std::less<>>;
  void set_origin(std::string file, Names names);
  std::string path_of(std::string_view name) const;  // as the document has it

 private:
  struct Origin {
    std::string file;
    Names names;
  };
  const Json* find(std::string_view name) const;
  [[noreturn]] void fail_with(const std::string& message) const;
  [[noreturn]] void wrong(std::string_view name, const Json& value,
                          std::string_view expected) const;
  int64_t checked(std::string_view name, const Json& value) const;

  Json values_;
  std::string place_;  // of the object in its document
  std::shared_ptr<const Origin> origin_;
};

// Parses a config.json of Transformers 4 or 5 and converts it to one form: the text part of a
// multimodal model, `model_type` of that part, rope_parameters in place of rope_theta and
// rope_scaling. `name` is for messages.
Config read_hf_config(std::string_view json, std::string_view name);

}  // namespace lathe::checkpoint
