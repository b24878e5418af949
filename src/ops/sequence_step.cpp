// SPDX-License-Identifier: MIT
#include "ops/sequence_step.h"

namespace lathe {

SequenceStep& step_of(const Evaluation& c, int64_t rows) {
  c.check(c.step != nullptr, "{} rows need a step that says to which sequences they belong", rows);
  int64_t covered = 0;
  for (const StepItem& item : c.step->items()) {
    c.check(item.begin == covered && item.count >= 0, "an item begins at row {}, expected {}",
            item.begin, covered);
    covered += item.count;
  }
  c.check(covered == rows, "the step's items have {} rows, its tensors {}", covered, rows);
  return *c.step;
}

}  // namespace lathe
