// SPDX-License-Identifier: MIT
// Shared by lstm, gru and rnn: directions, layouts, lengths and the scan over time. Each op defines
// the computation of one step.
#pragma once

#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace lathe {

struct Recurrent;

// One step of one direction, inside the scan's body. Matrices are [batch, …].
class RecurrentStep {
 public:
  Builder& b;
  Value* input = nullptr;       // x·Wᵀ + its bias, [batch, gates · hidden]
  std::vector<Value*> state{};  // h, and c of an lstm, [batch, hidden]
  Value* weights = nullptr;     // Rᵀ [hidden, gates · hidden]
  Value* bias = nullptr;        // bias of the recurrence [gates · hidden], may be null
  Value* peepholes = nullptr;   // [3 · hidden], may be null
  const Expansion* e = nullptr;
  const Recurrent* op = nullptr;
  int direction = 0;
  Dim hidden{};

  Value* add(Value* x, Value* y) const;
  Value* mul(Value* x, Value* y) const;
  Value* one_minus(Value* x) const;
  // The columns or elements of gates [first, last).
  Value* gates(Value* all, int64_t first, int64_t last) const;
  Value* gate(Value* all, int64_t i) const { return gates(all, i, i + 1); }
  // h times the recurrent weights of gates [first, last), plus their bias.
  Value* recur(Value* h, int64_t first, int64_t last) const;
  // Applies the op's i-th activation of this direction after clipping.
  Value* activate(int64_t i, Value* x) const;
};

struct Recurrent {
  int64_t gates;
  int64_t states;                                 // 1: h; 2: h and c
  std::vector<std::string_view> activations;      // defaults per direction
  std::vector<Value*> (*step)(RecurrentStep& s);  // returns the next states
};

// Operands x, w, r, b?, sequence_lens?, initial_h?, initial_c?, p?.
std::vector<OperandSpec> recurrent_operands(int64_t states);
std::vector<AttributeSpec> recurrent_attributes(std::vector<AttributeSpec> extra = {});
void infer_recurrent(Infer& c, int64_t gates, int64_t states);
void expand_recurrent(Expansion& e, const Recurrent& op);

}  // namespace lathe
