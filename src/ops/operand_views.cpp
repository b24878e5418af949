// SPDX-License-Identifier: MIT
#include "ops/operand_views.h"

#include "ops/support/indices.h"

namespace lathe {

const TensorView& OperandViews::absent() {
  static const TensorView view;
  return view;
}

std::vector<int64_t> OperandViews::values(int i) const {
  std::vector<int64_t> values(static_cast<size_t>(in(i).count()));
  load_values(in(i), 0, values);
  return values;
}

}  // namespace lathe
