// SPDX-License-Identifier: MIT
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {

// The weights have the kernel's shape; kernel_shape must agree with it.
void check_kernel_shape(NodeImport& c, int weights) {
  const Integers kernel = c.integers("kernel_shape", Integers{});
  const Type& w = c.in(weights)->type();
  if (kernel.empty() || !w.is_ranked()) return;
  c.check(static_cast<int>(kernel.size()) + 2 == w.rank(),
          "kernel_shape has {} entries, the weights are {}", kernel.size(), w.to_string());
  for (size_t i = 0; i < kernel.size(); ++i) {
    c.check(equal((*w.dims)[i + 2], kernel[i]) != Ternary::no,
            "kernel_shape is {} on spatial axis {}, the weights are {}", kernel[i], i,
            w.to_string());
  }
}

void import_conv(NodeImport& c) {
  check_kernel_shape(c, 1);
  c.plain(c.inputs());
}

void import_qlinear_conv(NodeImport& c) {
  check_kernel_shape(c, 3);
  c.plain(c.inputs());
}

// Indices are an output from opset 8 on.
void import_max_pool_1(NodeImport& c) {
  c.check(c.outputs() <= 1, "output 1 is used, MaxPool has {} outputs before opset 8", 1);
  c.plain(c.inputs());
}

}  // namespace lathe::onnx
