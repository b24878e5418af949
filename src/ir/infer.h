// SPDX-License-Identifier: MIT
// Type inference: the argument of an op's `infer` function.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/op.h"
#include "ir/program.h"

namespace lathe {

// Largest integer tensor that carries one symbolic value per element, in elements.
inline constexpr int64_t kMaxSymbolicElements = 256;

class Infer {
 public:
  explicit Infer(Instruction& instruction) : instruction_(instruction) {}

  // Operands. `has` is false for an absent optional operand.
  int count() const { return static_cast<int>(instruction_.operands().size()); }
  bool has(int i) const;
  const Type& type(int i) const;
  ElementType element(int i) const { return type(i).element; }
  // InvalidModel if the operand, rank or axis does not exist.
  int rank(int i) const { return static_cast<int>(dims(i).size()); }
  const std::vector<Dim>& dims(int i) const;
  const Dim& dim(int i, int axis) const;
  // Symbolic values of a small integer operand, row-major; null if unknown.
  const std::vector<Dim>* elements(int i) const;
  // elements() if all of them are constant.
  std::optional<std::vector<int64_t>> constants(int i) const;
  // Tensor of an operand that is a literal (not deferred); else null.
  const Tensor* literal(int i) const;

  // Attributes; the op's record guarantees presence and kind. `has_attribute` is for optional ones.
  bool has_attribute(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  ElementType element_type(std::string_view name) const;
  const Integers& integers(std::string_view name) const;
  const std::vector<Dim>& dims_attribute(std::string_view name) const;
  // An axis in [-rank, rank), normalised to [0, rank); InvalidModel if out of range.
  int axis(int64_t value, int rank) const;
  int axis(std::string_view attribute, int rank) const { return axis(integer(attribute), rank); }
  // Distinct normalised axes of the attribute; all axes if it is absent or empty.
  std::vector<int> axes(std::string_view attribute, int rank) const;
  Module& body(int i) const { return *instruction_.bodies()[static_cast<size_t>(i)]; }

  // Results, in order.
  void result(ElementType element, std::vector<Dim> dims);
  void result(Type type);
  // Symbolic values of the latest result; dropped if they may overflow its element type.
  void result_elements(std::vector<Dim> elements);
  // result_elements(f()), or no elements if a value exceeds 64 bits, where integers wrap around.
  template <class F>
  void try_result_elements(F&& f) {
    try {
      result_elements(f());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
    }
  }
  int results() const { return static_cast<int>(types_.size()); }
  int expected_results() const { return static_cast<int>(instruction_.results().size()); }

  // A data-dependent symbol: this instruction defines its value at run time.
  Dim found(std::string_view hint, Range range = {});
  // Requires dims to be equal (or ordered). Known to fail: an error now; unknown: a guard at run
  // time.
  void require_equal(const Dim& a, const Dim& b, std::string_view what);
  void require_less_equal(const Dim& a, const Dim& b, std::string_view what);
  // Broadcasts dims (numpy's rule).
  Dim broadcast(const Dim& a, const Dim& b, std::string_view what);
  std::vector<Dim> broadcast(const std::vector<Dim>& a, const std::vector<Dim>& b);
  std::vector<Dim> broadcast_operands();  // of all present operands

  // InvalidModel, prefixed with the op's name, with the operands' types as a note.
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

  Instruction& instruction() const { return instruction_; }

 private:
  friend void infer(Instruction& instruction);
  friend struct InferRun;
  void run();
  void check_operands() const;
  void check_operand(const OperandSpec& spec, int i) const;
  void infer_elementwise();
  void infer_unranked();
  [[noreturn]] void raise(std::string message) const;
  Instruction& instruction_;
  std::vector<Type> probes_;  // while trying ranks: the operands' types
  std::vector<Type> types_;
  std::vector<std::optional<std::vector<Dim>>> elements_;
  std::vector<Guard> guards_;
  size_t found_count_ = 0;
};

// Inferred types, elements and guards of one instruction, which stays unchanged. Uses the
// instruction's data-dependent symbols; creates those that are missing.
struct InferRun {
  explicit InferRun(Instruction& instruction);
  std::vector<Type> types;
  std::vector<std::optional<std::vector<Dim>>> elements;
  std::vector<Guard> guards;
};

// Checks operands and attributes against the op's record. Stores the inferred types and elements,
// and adds the guards to the module.
void infer(Instruction& instruction);
// Infers every instruction of a module in order, bodies included.
void infer(Module& module);
// Infers all dependents of `value` again, bodies included. Call it after `value` has changed its
// type or symbolic values, or has replaced another value.
void infer_users(Value& value);

}  // namespace lathe
