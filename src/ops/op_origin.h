// SPDX-License-Identifier: MIT
// The instruction behind a launch: named in errors, with the attributes that kernels read when they
// are made.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ir/op.h"
#include "ir/program.h"

namespace lathe {

// Internal unless the attribute exists and has this kind.
template <class T>
const T& required_attribute(const Instruction& instruction, std::string_view name) {
  const Attribute* value = find_attribute(instruction.attributes(), name);
  check(value != nullptr && std::holds_alternative<T>(*value), ErrorKind::internal,
        "{} has no attribute '{}' of the requested kind", instruction.op().name, name);
  return std::get<T>(*value);
}

// Raises errors that name the op and where the instruction came from. Refers to the instruction.
class OpOrigin {
 public:
  explicit OpOrigin(const Instruction& instruction) : instruction_(&instruction) {}

  template <class First, class... Rest>
  [[noreturn]] void fail(fmt::format_string<First, Rest...> format, First&& first,
                         Rest&&... rest) const {
    raise(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  void check(bool condition, fmt::format_string<First, Rest...> format, First&& first,
             Rest&&... rest) const {
    if (!condition) {
      raise(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
    }
  }

 protected:
  OpOrigin() = default;
  [[noreturn]] void raise(std::string message) const;  // InvalidArgument
  const Instruction* instruction_ = nullptr;
};

// Operands that are present and attributes of an instruction.
class InstructionReader : public OpOrigin {
 public:
  using OpOrigin::OpOrigin;

  const Instruction& instruction() const { return *instruction_; }
  int count() const { return static_cast<int>(instruction_->operands().size()); }
  // False for an absent optional operand, as in Infer.
  bool has(int i) const {
    return i < count() && instruction_->operands()[static_cast<size_t>(i)] != nullptr;
  }

  // Attributes, as in Infer.
  bool has_attribute(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  ElementType element_type(std::string_view name) const;
  const Integers& integers(std::string_view name) const;
  const Numbers& numbers(std::string_view name) const;
  const Texts& texts(std::string_view name) const;
  // An axis in [-rank, rank), normalised to [0, rank).
  int axis(std::string_view attribute, int rank) const;

 protected:
  InstructionReader() = default;
};

}  // namespace lathe
