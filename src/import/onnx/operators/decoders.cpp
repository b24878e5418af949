// SPDX-License-Identifier: MIT
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {

void import_causal_conv_with_state(NodeImport& c) {
  const int64_t axes = c.integer("ndim", 1);
  c.supported(axes == 1, "ndim is {}, expected 1", axes);
  c.plain(c.inputs());
}

// x + y · gate
void import_gated_add(NodeImport& c) {
  c.out(0, c.b("add", {c.in(0), c.b("mul", {c.in(1), c.in(2)})}));
}

void import_linear_attention(NodeImport& c) {
  c.ignore({"chunk_size"});
  c.plain(c.inputs());
}

void import_mrotary_embedding(NodeImport& c) {
  const int64_t packed = c.integer("is_packed_batching", 0);
  c.supported(packed == 0, "is_packed_batching is {}, expected 0", packed);
  c.supported(c.number("scale", 1.0) == 1.0, "scale is {}, expected 1", c.number("scale", 1.0));
  c.plain(c.inputs());
}

void import_qmoe(NodeImport& c) {
  const std::string_view type = c.text("quant_type", "int");
  c.supported(type == "int", "quant_type is '{}', expected int", escape(type));
  const int64_t bits = c.integer("expert_weight_bits", 4);
  for (const std::string_view name :
       {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"}) {
    c.supported(c.integer(name, bits) == bits, "{} is {}, expected expert_weight_bits, {}", name,
                c.integer(name, bits), bits);
  }
  const int64_t packed = c.integer("weights_prepacked", -1);
  c.supported(packed < 1, "weights_prepacked is {}, expected 0 or -1", packed);
  c.supported(c.count() <= 15, "the node has {} inputs, expected at most 15 (no fc1_global_scale)",
              c.count());
  // As for matmul_n_bits, where codes have blocks; the level states a minimum.
  const bool int8 = c.integer("accuracy_level", 0) == 4 && c.integer("block_size", 0) > 0;
  c.ignore({"accuracy_level"});
  c.plain(c.inputs(), {{"compute_type", std::string(int8 ? "int8" : "f32")}});
}

}  // namespace lathe::onnx
