// SPDX-License-Identifier: MIT
#pragma once

#include "tests/support/row_text.h"

namespace lathe::test {

// Runs a `run` row: the program, printed and parsed again at every stage, on `ref` and on the
// asynchronous queue, with one thread and with two, and compares each run's results.
void run_program_row(const OpRow& row);

}  // namespace lathe::test
