// SPDX-License-Identifier: MIT
// Reference evaluation: arguments of an op's `eval` and `view` functions.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/op.h"
#include "ir/program.h"
#include "tensor/box.h"
#include "tensor/tensor.h"

namespace lathe {

class CompiledExpr;
class SequenceStep;
class ThreadPool;

// One evaluation of one instruction, filled in by the executor and the constant folder. Operands
// may have any strides; so may results in a caller's tensor: `eval` must honour both. Shapes are
// concrete. InvalidArgument if values violate the op's contract, such as an index out of range.
class Evaluation {
 public:
  virtual ~Evaluation() = default;

  const Instruction& instruction() const { return *instruction_; }
  int count() const { return static_cast<int>(instruction_->operands().size()); }
  // False for an absent optional operand, as in Infer.
  bool has(int i) const {
    return i < count() && instruction_->operands()[static_cast<size_t>(i)] != nullptr;
  }

  // Operands and results in plain memory.
  const TensorView& in(int i) const { return inputs_[static_cast<size_t>(i)]; }
  // Memory of a result whose shape follows from the operands' types.
  const TensorView& out(int i = 0) const { return outputs_[static_cast<size_t>(i)]; }
  // Memory of a result of this data-dependent shape, valid until the evaluation returns.
  // InvalidArgument if the shape contradicts the inferred one.
  virtual const TensorView& out(int i, std::span<const int64_t> dims) = 0;
  // Operands and results in boxes: sequences, optionals, unknown rank, strings. A string tensor has
  // both a box and a view.
  virtual const Box& box(int i) const = 0;
  virtual void set_box(int i, Box box) = 0;
  int results() const { return static_cast<int>(outputs_.size()); }

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

  // The integers of an operand of any integer type, row-major.
  std::vector<int64_t> values(int i) const;

  ThreadPool* pool = nullptr;    // null: run on the calling thread only
  SequenceStep* step = nullptr;  // sequence operators only

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
  [[noreturn]] void raise(std::string message) const;  // InvalidArgument with op and origin
  const Instruction* instruction_ = nullptr;
  std::vector<TensorView> inputs_;
  std::vector<TensorView> outputs_;
};

// The broadcast shape of all operands (numpy's rule).
Dims broadcast_extents(const Evaluation& c);

// Requests result `index` as a view of operand 0. `result` has type and shape; a `view` function
// that returns true has set its strides and data.
class ViewRequest {
 public:
  const Instruction* instruction = nullptr;
  int index = 0;
  TensorView operand;
  TensorView result;
  int64_t integer(std::string_view name) const;
  const Integers& integers(std::string_view name) const;
  // Integers of an operand that are available on the host before the launch; empty if not.
  std::span<const int64_t> known(int i) const { return known_[static_cast<size_t>(i)]; }
  bool is_known(int i) const { return is_known_[static_cast<size_t>(i)]; }

  std::vector<std::vector<int64_t>> known_;
  std::vector<bool> is_known_;
};

// The reference evaluation of one instruction, prepared once: its formula compiled for its element
// types, or its `eval`. Composites must be expanded first. Immutable.
class PreparedEvaluation {
 public:
  explicit PreparedEvaluation(const Instruction& instruction);
  ~PreparedEvaluation();
  void run(Evaluation& c) const;

 private:
  const Instruction* instruction_;
  std::unique_ptr<const CompiledExpr> formula_;
};

// Evaluates one instruction on host tensors, composites by expansion; for constant folding and
// tests.
std::vector<Box> evaluate_instruction(const Instruction& instruction,
                                      const std::vector<Box>& operands, ThreadPool* pool = nullptr);

// Calls `f` with each index tuple of `dims`, in row-major order.
template <class F>
void for_each_index(std::span<const int64_t> dims, F&& f) {
  std::array<int64_t, kMaxRank> index{};
  for (const int64_t extent : dims) {
    if (extent == 0) return;
  }
  const std::span<const int64_t> tuple(index.data(), dims.size());
  while (true) {
    f(tuple);
    size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// Offset of an index tuple in elements.
inline int64_t offset_of(const TensorView& view, std::span<const int64_t> index) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * view.strides[axis];
  return offset;
}

}  // namespace lathe
