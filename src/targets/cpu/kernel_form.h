// SPDX-License-Identifier: MIT
// Instructions as the description of one generated kernel.
#pragma once

#include <initializer_list>
#include <span>
#include <unordered_map>
#include <vector>

#include "codegen/kernel.h"
#include "ir/program.h"

namespace lathe::cpu {

class KernelForm {
 public:
  // What the kernel reads beside operands of the launch.
  static constexpr int kColumns = -1;    // the number of columns as f32, one for all rows
  static constexpr int kTemporary = -2;  // rows of f32
  static constexpr int kNone = -3;

  // `operands`: of the launch.
  explicit KernelForm(std::span<const Value* const> launch_operands) : launch_(launch_operands) {}

  // A value that the launch has as f32 accumulators: times a factor, plus an operand times another.
  struct Sums {
    int operand = 0;
    float factor = 1;
    int summand = kNone;
    ElementType summand_type = ElementType::f32;
    float summand_factor = 1;
  };
  void add_sums(const Value& value, const Sums& sums);
  // An elementwise instruction. False if its meaning is no formula.
  bool add(const Instruction& instruction, bool is_last);
  // Softmax, its logarithm, layer or RMS normalisation over the columns; at most one.
  void add_rows(const Instruction& instruction);
  // The result, as the kernel's last operand of this type.
  void store(const Value& result, ElementType type);

  codegen::KernelDescription kernel;
  std::vector<int> operands;  // of the launch, or one of the above, for each of the kernel's

 private:
  using NodeId = codegen::NodeId;
  struct Typed {
    NodeId node = codegen::kNone;
    ExprType type = ExprType::f32;
  };

  Typed value_of(const Value* value, ExprType type);
  int place_of(int operand, ElementType type);
  int add_operand(int operand, ElementType type);
  NodeId operation(ExprOp op, ExprType type, ExprType input_type,
                   std::initializer_list<NodeId> inputs);
  NodeId of_floats(ExprOp op, std::initializer_list<NodeId> inputs);
  NodeId number(float value);
  NodeId float_of(const Value* bytes);
  NodeId zero_point(const Instruction& instruction);
  Typed cast(const Value& x, ElementType to);
  NodeId quantise(const Instruction& instruction, bool is_last);
  NodeId dequantise(const Instruction& instruction);
  NodeId reduction(codegen::Phase phase, ExprOp op, NodeId value);
  NodeId mean(codegen::Phase phase, NodeId value);
  struct Rows {
    NodeId x = codegen::kNone, loaded = codegen::kNone;  // in the first phase, and later
    codegen::Phase first{};                              // stores x
  };
  NodeId softmax(const Rows& rows);
  NodeId log_softmax(const Rows& rows);
  NodeId normalise(const Instruction& instruction, const Rows& rows);

  std::span<const Value* const> launch_;
  std::unordered_map<const Value*, Typed> values_;
  int scalars_ = 0;
};

}  // namespace lathe::cpu
