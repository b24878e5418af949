// SPDX-License-Identifier: MIT
// packed_attention as one attention per sequence: shared by its evaluation and its kernel.
#pragma once

#include <vector>

#include "ops/op_call.h"
#include "ops/support/sdpa.h"
#include "ops/support/step_tables.h"

namespace lathe {

struct PackedAttentionAttributes {
  explicit PackedAttentionAttributes(const InstructionReader& c);
  int64_t heads;
  double scale;   // 0: 1 / sqrt(head size)
  bool use_bf16;  // q, k and v are rounded to bf16
};
// The tokens of each sequence. InvalidArgument unless the bounds rise from 0 to the tokens.
std::vector<StepItem> packed_sequences(const OpCall& c);
Attend prepare_packed_attention(const PackedAttentionAttributes& a, const OpCall& c,
                                const StepItem& item);

}  // namespace lathe
