// SPDX-License-Identifier: MIT
// Sizes of values in one run, and from them the bytes and operations of launches.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/profiler.h"

namespace lathe::cli {

// Nullopt if an operand is, or if the result does not fit.
std::optional<int64_t> checked_product(std::optional<int64_t> a, std::optional<int64_t> b);
std::optional<int64_t> checked_sum(std::optional<int64_t> a, std::optional<int64_t> b);

// The values of dims: those of constant ones, and those that the launches of a run had.
class ValueSizes {
 public:
  ValueSizes() = default;
  explicit ValueSizes(const Profiler& run);

  std::optional<std::vector<int64_t>> dims(const Value& value) const;
  std::optional<int64_t> bytes(const Value& value) const;  // tensors

 private:
  void bind(const Value& value, const std::vector<int64_t>& dims);
  std::map<std::string, int64_t, std::less<>> symbols_;
};

// What the time of a launch goes to; the page has a colour for each.
enum class WorkKind : uint8_t { product, attention, elementwise, movement, other, view };
std::string_view to_string(WorkKind kind);
WorkKind work_kind(const Launch& launch);

// Bytes that a launch reads and writes; of a table that it gathers from, only what it takes.
std::optional<int64_t> launch_bytes(const Launch& launch, const ValueSizes& sizes);
// Arithmetic operations: two for each multiplication of a product and its addition, one for each
// element that an elementwise instruction computes and each that another one reads.
std::optional<int64_t> launch_operations(const Launch& launch, const ValueSizes& sizes);

}  // namespace lathe::cli
