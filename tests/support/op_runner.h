// SPDX-License-Identifier: MIT
// Runs one row of an op test in every way that must give the same answer.
#pragma once

#include "tests/support/row_text.h"

namespace lathe::test {

// Reports differences as test failures:
//  1. the instruction alone on dense operands, as constant folding does;
//  2. its evaluation with odd strides of operands and results, the memory around results watched,
//     with operand values known to inference and without;
//  3. its view, where the op makes one, against the expected values;
//  4. inference with a symbol for every extent and for every small integer: types, values and
//     requirements, at the true extents, must agree with the true results.
void run_op_row(const OpRow& row);

}  // namespace lathe::test
