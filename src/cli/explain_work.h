// SPDX-License-Identifier: MIT
// Sizes of values in one run, and from them the bytes and operations of launches.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/profiler.h"
#include "tensor/dim.h"

namespace lathe::cli {

// The values of dims: those of constant ones, and those that the launches of a run had.
class ValueSizes {
 public:
  ValueSizes() = default;
  explicit ValueSizes(const Profiler& run);

  std::optional<std::vector<int64_t>> dims(const Value& value) const;
  std::optional<int64_t> value(const Dim& dim) const;

 private:
  void bind(const Value& value, std::span<const int64_t> dims);
  std::map<std::string, int64_t, std::less<>> symbols_;
};

// What the time of a launch goes to; the page has a colour for each.
enum class WorkKind : uint8_t { product, attention, elementwise, movement, other, view };
std::string_view to_string(WorkKind kind);
WorkKind work_kind(const Launch& launch);

// Over the symbols of dims; nullopt: unknown, or too large an expression.
std::optional<Dim> symbolic_bytes(const Value& value, int64_t factor);
// Bytes that a launch reads and writes; of a table that it gathers from, only what it takes.
std::optional<Dim> symbolic_launch_bytes(const Launch& launch);
std::optional<int64_t> launch_bytes(const Launch& launch, const ValueSizes& sizes);
// Arithmetic operations: two for each multiplication of a product and its addition, one for each
// element that an elementwise instruction computes and each that another one reads.
std::optional<int64_t> launch_operations(const Launch& launch, const ValueSizes& sizes);

}  // namespace lathe::cli
