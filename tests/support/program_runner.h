// SPDX-License-Identifier: MIT
#pragma once

#include "tests/support/row_text.h"

namespace lathe::test {

// Runs a `run` row on `ref` with one thread and with two, on the simulated device with every seed
// and on `cpu`, with a round trip through the text at every stage, and compares all results.
void run_program_row(const OpRow& row);

}  // namespace lathe::test
