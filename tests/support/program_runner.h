// SPDX-License-Identifier: MIT
#pragma once

#include "tests/support/row_text.h"

namespace lathe::test {

// Runs a `run` row on `ref` and on the asynchronous queue, with one thread and with two, with a
// round trip through the text at every stage, and compares all results.
void run_program_row(const OpRow& row);

}  // namespace lathe::test
