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
#include "ops/op_origin.h"
#include "ops/operand_views.h"
#include "tensor/box.h"
#include "tensor/tensor.h"

namespace lathe {

class CompiledExpr;

// One evaluation of one instruction, filled in by the executor and the constant folder. Operands
// may have any strides; so may results in a caller's tensor: `eval` must honour both. Shapes are
// concrete. InvalidArgument if values violate the op's contract, such as an index out of range.
class Evaluation : public InstructionReader, public OperandViews {
 public:
  using InstructionReader::count;
  using InstructionReader::has;

  // Operands and results in boxes: sequences, optionals, unknown rank, strings. A string tensor has
  // both a box and a view.
  virtual const Box& box(int i) const = 0;
  virtual void set_box(int i, Box box) = 0;
};

// An evaluation that holds its views.
class StoredEvaluation : public Evaluation {
 public:
  StoredEvaluation(const StoredEvaluation&) = delete;
  StoredEvaluation& operator=(const StoredEvaluation&) = delete;

 protected:
  // Views without data, one per operand and result.
  explicit StoredEvaluation(const Instruction& instruction);
  std::vector<TensorView> operand_views_;
  std::vector<TensorView> result_views_;

 private:
  std::vector<const TensorView*> operand_pointers_;
  std::vector<TensorView*> result_pointers_;
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

// The formula of an elementwise instruction; Internal if an operand is absent.
Expr formula_of(const Instruction& instruction);

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
