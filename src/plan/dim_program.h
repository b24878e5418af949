// SPDX-License-Identifier: MIT
// Dims compiled to a register program: a run evaluates them without maps, strings or allocation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dim.h"

namespace lathe {

// Registers: one per dim, then constants and temporaries. An operand below 0 is symbol ~operand.
class DimProgram {
 public:
  enum class Op : uint8_t { copy, add, mul, floor_div, ceil_div, mod, min, max, bcast };
  struct Step {
    Op op = Op::copy;
    int32_t to = 0;
    int32_t a = 0;
    int32_t b = 0;
  };

  // `dims`: by register; `symbols`: by index, those of all dims among them.
  DimProgram(std::span<const Dim> dims, std::span<const SymbolRef> symbols);
  DimProgram() = default;

  // Register values before any evaluation: constant dims have their value, others -1.
  const std::vector<int64_t>& initial() const { return initial_; }
  bool is_constant(int32_t dim) const { return ranges_[static_cast<size_t>(dim)].begin < 0; }
  // Sets the register of a dim. False, and -1 in the register, if a symbol is unknown (below 0), on
  // division by zero or overflow, and for a broadcast of different sizes other than 1.
  bool evaluate(int32_t dim, std::span<const int64_t> symbols, std::span<int64_t> registers) const;

 private:
  struct Range {
    int32_t begin = -1;  // -1: constant
    int32_t end = -1;
  };
  class Compiler;
  std::vector<Step> steps_;
  std::vector<Range> ranges_;  // per dim
  std::vector<int64_t> initial_;
};

}  // namespace lathe
