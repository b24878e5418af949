// SPDX-License-Identifier: MIT
#include "bench/kernels/onednn/peer.h"

namespace lathe::bench {

using dnnl::memory;

// All tensors have oneDNN's layouts. int8 results: unsigned after relu, else signed.
std::unique_ptr<Prepared> prepare_conv(const dnnl::engine& engine, const Problem& p) {
  auto prepared = std::make_unique<Prepared>(engine, p);
  const bool is_int8 = p.type == "int8";
  const auto any = memory::format_tag::any;
  const int64_t groups = p["g"];
  const memory::dims x{p["n"], p["ic"], p["ih"], p["iw"]};
  const memory::dims y{p["n"], p["oc"], output_height(p), output_width(p)};
  memory::dims w{p["oc"], p["ic"] / groups, p["kh"], p["kw"]};
  if (groups > 1) w = {groups, p["oc"] / groups, p["ic"] / groups, p["kh"], p["kw"]};
  const memory::desc x_desc(x, data_type(p.type, true), any);
  const memory::desc w_desc(w, data_type(p.type, false), any);
  const memory::desc y_desc(y, data_type(p.type, p.activation == "relu"), any);
  const memory::desc bias_desc =
      p["bias"] != 0 ? memory::desc({p["oc"]}, memory::data_type::f32, memory::format_tag::x)
                     : memory::desc();

  dnnl::primitive_attr attributes;
  dnnl::post_ops ops;
  if (p["sum"] != 0) ops.append_sum(1.0F);
  append_activation(ops, p.activation);
  attributes.set_post_ops(ops);
  const int64_t depth = p["ic"] / groups * p["kh"] * p["kw"];
  const std::vector<float> scales = is_int8 ? int8_scales(p["oc"], depth) : std::vector<float>{};
  std::vector<float> bias = operand_values(2, p["oc"], Range::real);
  const memory::dims strides{p["sh"], p["sw"]};
  const memory::dims dilations{p["dh"] - 1, p["dw"] - 1};
  const memory::dims before{p["pt"], p["pl"]};
  const memory::dims after{p["pb"], p["pr"]};
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  if (is_int8) attributes.set_scales_mask(DNNL_ARG_WEIGHTS, groups > 1 ? 3 : 1);
  const dnnl::convolution_forward::primitive_desc description(engine, kind, direct, x_desc, w_desc,
                                                              bias_desc, y_desc, strides, dilations,
                                                              before, after, attributes);
#else
  // oneDNN 2 also scales the bias.
  if (is_int8) attributes.set_output_scales(2, scales);
  for (size_t i = 0; i < scales.size(); ++i) bias[i] /= scales[i];
  const dnnl::convolution_forward::primitive_desc description(
      {kind, direct, x_desc, w_desc, bias_desc, y_desc, strides, dilations, before, after},
      attributes, engine);
#endif
  prepared->add(DNNL_ARG_SRC, description.src_desc(),
                operand_values(0, p["n"] * p["ic"] * p["ih"] * p["iw"],
                               is_int8 ? Range::unsigned8 : Range::real));
  prepared->add(DNNL_ARG_WEIGHTS, description.weights_desc(),
                operand_values(1, p["oc"] * depth, is_int8 ? Range::signed8 : Range::real));
  if (p["bias"] != 0) prepared->add_vector(DNNL_ARG_BIAS, bias);
#if DNNL_VERSION_MAJOR >= 3
  if (is_int8) prepared->add_vector(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scales);
#endif
  if (p["sum"] != 0) {
    const int64_t count = y[0] * y[1] * y[2] * y[3];
    prepared->residual = operand_values(3, count, is_int8 ? Range::small_unsigned : Range::real);
  }
  prepared->finish(dnnl::convolution_forward(description), description.dst_desc(),
                   description.impl_info_str());
  return prepared;
}

}  // namespace lathe::bench
