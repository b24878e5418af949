// SPDX-License-Identifier: MIT
// Random ops: element i of a result depends on the seed, the counter and i alone, so programs with
// random numbers stay pure. The counter is a state that grows by 1 per run.
#pragma once

#include "base/philox.h"
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

// Operands shape and counter; attributes seed and dtype.
std::vector<OperandSpec> random_operands();
std::vector<AttributeSpec> random_attributes(const char* first, double a, const char* second,
                                             double b);
void infer_random(Infer& c);
// 128 random bits for element `i` of the result; operand 1 is the counter.
PhiloxBlock random_bits(const Evaluation& c, int64_t i);
// A multiple of 2^-53 in [0, 1), and one of 2^-24 (exact in f32), from bits of the block.
double uniform_53(const PhiloxBlock& bits);
double uniform_24(const PhiloxBlock& bits);
// Sets each element of result 0 to draw(bits).
void eval_random(Evaluation& c, double (*draw)(const Evaluation& c, const PhiloxBlock& bits));

}  // namespace lathe
