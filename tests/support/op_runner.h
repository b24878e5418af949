// SPDX-License-Identifier: MIT
// Runs one row of an op test in all equivalent ways.
#pragma once

#include <memory>

#include "tests/support/row_text.h"

namespace lathe {
class Target;
}

namespace lathe::test {

// Reports differences as test failures:
//  1. evaluation of the instruction on dense operands, as in constant folding;
//  2. evaluation with odd strides and guarded results, with constant and with unknown operand
//  values;
//  3. the view of view ops, against the expected values;
//  4. inference with symbols for all sizes and all small integers: types, values and requirements
//     must hold for the actual results.
void run_op_row(const OpRow& row);
// Runs a program of the row's instruction on one target, with constant shapes and with symbols.
// Rows of errors and of programs do nothing.
void run_op_row_on(const OpRow& row, const std::shared_ptr<const Target>& target);

}  // namespace lathe::test
