// SPDX-License-Identifier: MIT
#include "bench/kernels/onednn/peer.h"

namespace lathe::bench {

using dnnl::memory;

// Constant weights have oneDNN's layout, other tensors are row-major. int8 GEMMs return f32.
std::unique_ptr<Prepared> prepare_matmul(const dnnl::engine& engine, const Problem& p) {
  auto prepared = std::make_unique<Prepared>(engine, p);
  const bool is_int8 = p.type == "int8";
  const bool constant = p["weights"] != 0;
  const int64_t batch = std::max<int64_t>(1, p["batch"]);
  memory::dims a{p["m"], p["k"]};
  memory::dims b{p["k"], p["n"]};
  memory::dims c{p["m"], p["n"]};
  if (constant) a[0] = c[0] = p["m"] * batch;
  if (!constant) {
    for (memory::dims* dims : {&a, &b, &c}) dims->insert(dims->begin(), batch);
  }
  const memory::desc a_desc(a, data_type(p.type, true), row_major(a));
  const memory::desc b_desc =
      constant ? memory::desc(b, data_type(p.type, false), memory::format_tag::any)
               : memory::desc(b, data_type(p.type, false), row_major(b));
  const memory::desc c_desc(c, data_type(is_int8 ? "f32" : p.type, false), row_major(c));
  memory::dims bias_dims(c.size(), 1);
  bias_dims.back() = p["n"];
  const memory::desc bias_desc =
      p["bias"] != 0 ? memory::desc(bias_dims, memory::data_type::f32, row_major(bias_dims))
                     : memory::desc();

  dnnl::primitive_attr attributes;
  dnnl::post_ops ops;
  if (p["sum"] != 0) ops.append_sum(1.0F);
  append_activation(ops, p.activation);
  attributes.set_post_ops(ops);
  const std::vector<float> scales = is_int8 ? int8_scales(p["n"], p["k"]) : std::vector<float>{};
  std::vector<float> bias = operand_values(2, p["n"], Range::real);
  const int mask = 1 << (c.size() - 1);
#if DNNL_VERSION_MAJOR >= 3
  if (is_int8) attributes.set_scales_mask(DNNL_ARG_WEIGHTS, mask);
  const dnnl::matmul::primitive_desc description(engine, a_desc, b_desc, bias_desc, c_desc,
                                                 attributes);
#else
  // oneDNN 2 also scales the bias.
  if (is_int8) attributes.set_output_scales(mask, scales);
  for (size_t i = 0; i < scales.size(); ++i) bias[i] /= scales[i];
  const dnnl::matmul::primitive_desc description({a_desc, b_desc, bias_desc, c_desc}, attributes,
                                                 engine);
#endif
  prepared->add(
      DNNL_ARG_SRC, description.src_desc(),
      operand_values(0, batch * p["m"] * p["k"], is_int8 ? Range::unsigned8 : Range::real));
  prepared->add(DNNL_ARG_WEIGHTS, description.weights_desc(),
                operand_values(1, (constant ? 1 : batch) * p["k"] * p["n"],
                               is_int8 ? Range::signed8 : Range::real));
  if (p["bias"] != 0) prepared->add(DNNL_ARG_BIAS, bias_desc, bias);
#if DNNL_VERSION_MAJOR >= 3
  if (is_int8) prepared->add_vector(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scales);
#endif
  if (p["sum"] != 0) prepared->residual = operand_values(3, batch * p["m"] * p["n"], Range::real);
  prepared->finish(dnnl::matmul(description), description.dst_desc(), description.impl_info_str());
  return prepared;
}

}  // namespace lathe::bench
