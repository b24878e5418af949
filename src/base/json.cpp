// SPDX-License-Identifier: MIT
#include "base/json.h"

#include "base/error.h"
#include "base/json_error.h"

namespace lathe {

nlohmann::json parse_json(std::string_view text, std::string_view name, size_t max_bytes) {
  using Json = nlohmann::json;
  constexpr int kDeepest = 64;
  check(max_bytes == 0 || text.size() <= max_bytes, ErrorKind::invalid_model,
        "{} has {} bytes, expected at most {}", escape(name), text.size(), max_bytes);
  // Limits the depth: nested brackets must not exhaust the stack.
  bool deep = false;
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kDeepest;
    return !deep;
  };
  std::string problem;
  Json value;
  try {
    value = Json::parse(text, shallow);
  } catch (const Json::parse_error& error) {
    problem = json_error(text, error.byte);
  } catch (const Json::exception&) {
    problem = "a number is out of range";
  }
  check(!deep, ErrorKind::invalid_model, "{} is nested deeper than {} levels", escape(name),
        kDeepest);
  check(problem.empty(), ErrorKind::invalid_model, "{} is not valid JSON: {}", escape(name),
        problem);
  return value;
}

}  // namespace lathe
