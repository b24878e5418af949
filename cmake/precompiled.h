// SPDX-License-Identifier: MIT
// Precompiled for every target: headers that most files need, the project's core among them. It
// only saves time; each file still includes what it uses, and the include order of folders is
// unchanged.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ops/evaluation.h"

// Templates that hundreds of files would each instantiate are instantiated with the header.
namespace lathe::precompiled {

inline Op op() {
  return {.name = "",
          .doc = "",
          .operands = {{"x", kNumeric}, {"y", kFloats, Arity::optional}},
          .attributes = {{"integer", 1}, {"number", 1.0}, {"flag", true}, {"text", ""}},
          .bodies = {"body"}};
}

inline Value* instruction(Builder& builder, Value* x) {
  return builder("add", {x, x},
                 {{"axis", int64_t{1}}, {"axes", Integers{1}}, {"to", ElementType::f32}});
}

template <class T>
std::vector<T> vector(std::vector<T> a, const T& value) {
  std::vector<T> b(3, value);
  b.insert(b.end(), a.begin(), a.end());
  b.insert(b.begin(), value);
  b.erase(b.begin());
  b.push_back(value);
  b.resize(4, value);
  a = b;
  return a == std::vector<T>{value, value} ? a : b;
}
inline void vectors() {
  vector<Dim>({}, 1);
  vector<int64_t>({}, 1);
  vector<int>({}, 1);
  vector<std::string>({}, "");
}

template <class Json>
std::string json(std::string_view text) {
  Json a = Json::parse(text, nullptr, false);
  Json b = {{"text", std::string(text)}, {"number", 1}, {"real", 1.0}, {"flag", true}};
  a["value"] = b;
  a.push_back(std::string(text));
  return a.dump(1, ' ', false, Json::error_handler_t::replace);
}
inline void jsons() {
  json<nlohmann::json>("");
  json<nlohmann::ordered_json>("");
}

}  // namespace lathe::precompiled
