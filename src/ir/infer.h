// SPDX-License-Identifier: MIT
// Type inference: what an op's `infer` function sees and says.
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

// Integer tensors up to this many elements carry one symbolic value per element.
inline constexpr int64_t kMaxSymbolicElements = 256;

class Infer {
 public:
  explicit Infer(Instruction& instruction) : instruction_(instruction) {}

  // Operands. `has` is false for an absent optional one.
  int count() const { return static_cast<int>(instruction_.operands().size()); }
  bool has(int i) const;
  const Type& type(int i) const;
  ElementType element(int i) const { return type(i).element; }
  // InvalidModel for operands, ranks and axes that do not exist.
  int rank(int i) const { return static_cast<int>(dims(i).size()); }
  const std::vector<Dim>& dims(int i) const;
  const Dim& dim(int i, int axis) const;
  // The symbolic values of a small integer operand, row-major; null if they are not known.
  const std::vector<Dim>* elements(int i) const;
  // The same where every value is a constant.
  std::optional<std::vector<int64_t>> constants(int i) const;
  // The tensor of an operand that is a literal (not deferred); null otherwise.
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
  // An axis in [-rank, rank), counted from the front; InvalidModel otherwise.
  int axis(int64_t value, int rank) const;
  int axis(std::string_view attribute, int rank) const { return axis(integer(attribute), rank); }
  // The attribute as distinct axes counted from the front; all axes if it is absent or empty.
  std::vector<int> axes(std::string_view attribute, int rank) const;
  Module& body(int i) const { return *instruction_.bodies()[static_cast<size_t>(i)]; }

  // Results, in order.
  void result(ElementType element, std::vector<Dim> dims);
  void result(Type type);
  // Symbolic values of the result stated last; forgotten where they may leave its element type.
  void result_elements(std::vector<Dim> elements);
  // The same as f() gives them; none where one goes beyond 64 bits, at which integers wrap around.
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

  // A symbol whose value this instruction defines when it runs.
  Dim found(std::string_view hint, Range range = {});
  // Dims that must agree: known to differ is an error now, unknown becomes a requirement.
  void require_equal(const Dim& a, const Dim& b, std::string_view what);
  void require_less_equal(const Dim& a, const Dim& b, std::string_view what);
  // Extents broadcast together (numpy's rule).
  Dim broadcast(const Dim& a, const Dim& b, std::string_view what);
  std::vector<Dim> broadcast(const std::vector<Dim>& a, const std::vector<Dim>& b);
  std::vector<Dim> broadcast_operands();  // of all present operands

  // InvalidModel with the op's name in front and the operands' types as a note.
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
  std::vector<Type> probes_;  // while ranks are tried: the operands' types
  std::vector<Type> types_;
  std::vector<std::optional<std::vector<Dim>>> elements_;
  std::vector<Guard> guards_;
  size_t found_count_ = 0;
};

// What inference concludes for one instruction, without changing it: types, elements and guards.
// Symbols it finds are those the instruction has, created where it has none yet.
struct InferRun {
  explicit InferRun(Instruction& instruction);
  std::vector<Type> types;
  std::vector<std::optional<std::vector<Dim>>> elements;
  std::vector<Guard> guards;
};

// Checks operands and attributes against the op's record, infers and stores the results' types and
// elements, and adds the guards to the module.
void infer(Instruction& instruction);
// The same for every instruction of a module, bodies included, in order.
void infer(Module& module);
// Brings all that depends on `value` up to date, bodies included, after its type or its symbolic
// values changed or it took the place of another value.
void infer_users(Value& value);

}  // namespace lathe
