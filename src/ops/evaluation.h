// SPDX-License-Identifier: MIT
// Reference evaluation: what an op's `eval` and `view` functions see.
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

// One evaluation of one instruction. The executor and the constant folder fill it in. Operands may
// have any strides; results are dense unless a caller's tensor says otherwise, so an `eval` honours
// the strides of both. Extents are true extents. Nothing here throws for data it can handle;
// values that break the op's contract (an index out of range) are an InvalidArgument.
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
  // The result's memory where its extents follow from the operands' types.
  const TensorView& out(int i = 0) const { return outputs_[static_cast<size_t>(i)]; }
  // The same where they may depend on values: memory of these extents (InvalidArgument if they
  // contradict what inference promised). Valid until the evaluation returns.
  virtual const TensorView& out(int i, std::span<const int64_t> dims) = 0;
  // Operands and results in boxes: sequences, optionals, unknown rank, strings. A string tensor is
  // in a box and has a view as well.
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
  // An axis in [-rank, rank) counted from the front.
  int axis(std::string_view attribute, int rank) const;

  // The integers of an operand (any integer type), row-major.
  std::vector<int64_t> values(int i) const;

  ThreadPool* pool = nullptr;    // null: run on the caller alone
  SequenceStep* step = nullptr;  // of sequence operators

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

// The extents of all operands broadcast together (numpy's rule).
Dims broadcast_extents(const Evaluation& c);

// Asks an op whether result `index` can be a view of operand 0. `result` comes with type and
// extents filled in; a `view` function that says true has set its strides and data.
class ViewRequest {
 public:
  const Instruction* instruction = nullptr;
  int index = 0;
  TensorView operand;
  TensorView result;
  int64_t integer(std::string_view name) const;
  const Integers& integers(std::string_view name) const;
  // Integers of an operand that the host knows before the launch; empty span if it does not.
  std::span<const int64_t> known(int i) const { return known_[static_cast<size_t>(i)]; }
  bool is_known(int i) const { return is_known_[static_cast<size_t>(i)]; }

  std::vector<std::vector<int64_t>> known_;
  std::vector<bool> is_known_;
};

// The reference meaning of one instruction, prepared once: its formula compiled for its element
// types, or its `eval`. Composites must have been expanded before. Immutable after construction.
class PreparedEvaluation {
 public:
  explicit PreparedEvaluation(const Instruction& instruction);
  ~PreparedEvaluation();
  void run(Evaluation& c) const;

 private:
  const Instruction* instruction_;
  std::unique_ptr<const CompiledExpr> formula_;
};

// Evaluates one instruction (composites through their expansion) on tensors of the host, as
// constant folding and tests do.
std::vector<Box> evaluate_instruction(const Instruction& instruction,
                                      const std::vector<Box>& operands, ThreadPool* pool = nullptr);

// Walks all index tuples of `dims` in row-major order. `f` gets the tuple.
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

// Offset in elements of an index tuple under the view's strides.
inline int64_t offset_of(const TensorView& view, std::span<const int64_t> index) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * view.strides[axis];
  return offset;
}

}  // namespace lathe
