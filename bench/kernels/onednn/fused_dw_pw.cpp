// SPDX-License-Identifier: MIT
#include <chrono>

#include "bench/kernels/onednn/peer.h"

namespace lathe::bench {

using dnnl::memory;

namespace {

constexpr auto kAny = memory::format_tag::any;

// One of the two convolutions, as oneDNN's parameters.
struct Stage {
  memory::dims x, w, y, strides, before, after;
  std::string activation;
  uint64_t operand;  // index of the weights; the bias follows
};

Stage stage_of(const Problem& p, bool first) {
  const bool depthwise = first == (p["pointwise_first"] == 0);
  const Problem own = fused_stage(p, first);
  Stage h;
  h.x = {p["n"], own["ic"], own["ih"], own["iw"]};
  h.y = {p["n"], own["oc"], output_height(own), output_width(own)};
  h.w = {own["oc"], own["ic"], own["kh"], own["kw"]};
  if (depthwise) h.w = {own["oc"], 1, 1, own["kh"], own["kw"]};
  h.strides = {own["sh"], own["sw"]};
  h.before = {own["pt"], own["pl"]};
  h.after = {own["pb"], own["pr"]};
  h.activation = own.activation;
  h.operand = first ? 1 : 4;
  return h;
}

dnnl::convolution_forward::primitive_desc description_of(const dnnl::engine& engine, const Stage& h,
                                                         memory::data_type type,
                                                         const memory::desc& x,
                                                         const memory::desc& y,
                                                         const dnnl::primitive_attr& attributes) {
  const memory::desc w(h.w, type, kAny);
  const memory::desc bias({h.y[1]}, memory::data_type::f32, memory::format_tag::x);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, direct, x, w, bias, y, h.strides, h.before, h.after, attributes};
#else
  return {{kind, direct, x, w, bias, y, h.strides, h.before, h.after}, attributes, engine};
#endif
}

int64_t count_of(const memory::dims& dims) {
  int64_t count = 1;
  for (const int64_t extent : dims) count *= extent;
  return count;
}

std::unique_ptr<Prepared> two_calls(const dnnl::engine& engine, const Problem& p) {
  auto prepared = std::make_unique<Prepared>(engine, p);
  const memory::data_type type = data_type(p.type, true);
  memory::desc x(stage_of(p, true).x, type, kAny);
  for (const bool first : {true, false}) {
    const Stage h = stage_of(p, first);
    dnnl::primitive_attr attributes;
    dnnl::post_ops ops;
    append_activation(ops, h.activation);
    attributes.set_post_ops(ops);
    const auto description =
        description_of(engine, h, type, x, memory::desc(h.y, type, kAny), attributes);
    if (first) {
      prepared->add(DNNL_ARG_SRC, description.src_desc(),
                    operand_values(0, count_of(h.x), Range::real));
    }
    prepared->add(DNNL_ARG_WEIGHTS, description.weights_desc(),
                  operand_values(h.operand, count_of(h.w), Range::real));
    prepared->add_vector(DNNL_ARG_BIAS, operand_values(h.operand + 1, h.y[1], Range::real));
    if (first) {
      x = description.dst_desc();
      prepared->pass_on(dnnl::convolution_forward(description), x);
    } else {
      prepared->finish(dnnl::convolution_forward(description), description.dst_desc(),
                       "two of " + std::string(description.impl_info_str()));
    }
  }
  return prepared;
}

// The depthwise convolution as a post-op of the pointwise one.
std::unique_ptr<Prepared> fused(const dnnl::engine& engine, const Problem& p) {
  if (p["pointwise_first"] == 0) throw std::runtime_error("cannot fuse: depthwise first");
  auto prepared = std::make_unique<Prepared>(engine, p);
  const memory::data_type type = data_type(p.type, true);
  const Stage h = stage_of(p, true), wide = stage_of(p, false);
  dnnl::primitive_attr attributes;
  dnnl::post_ops ops;
  append_activation(ops, h.activation);
  const auto f32 = memory::data_type::f32;
#if DNNL_VERSION_MAJOR >= 3
  ops.append_dw(type, f32, type, p["kh"], p["sh"], p["pt"]);
#else
  ops.append_dw(type, f32, type, p["kh"], p["sh"], p["pt"], 0, {});
#endif
  append_activation(ops, wide.activation);
  attributes.set_post_ops(ops);
  const auto description = description_of(engine, h, type, memory::desc(h.x, type, kAny),
                                          memory::desc(h.y, type, kAny), attributes);
  prepared->add(DNNL_ARG_SRC, description.src_desc(),
                operand_values(0, count_of(h.x), Range::real));
  prepared->add(DNNL_ARG_WEIGHTS, description.weights_desc(),
                operand_values(h.operand, count_of(h.w), Range::real));
  prepared->add_vector(DNNL_ARG_BIAS, operand_values(h.operand + 1, h.y[1], Range::real));
  const int weights = DNNL_ARG_ATTR_POST_OP_DW | DNNL_ARG_WEIGHTS;
  prepared->add(weights, description.query_md(dnnl::query::exec_arg_md, weights),
                operand_values(wide.operand, count_of(wide.w), Range::real));
  prepared->add_vector(DNNL_ARG_ATTR_POST_OP_DW | DNNL_ARG_BIAS,
                       operand_values(wide.operand + 1, wide.y[1], Range::real));
  prepared->finish(dnnl::convolution_forward(description), description.dst_desc(),
                   "fused " + std::string(description.impl_info_str()));
  return prepared;
}

double seconds_of(Prepared& prepared) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int i = 0; i < 6; ++i) {
    const auto begin = Clock::now();
    prepared.run(8);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace

// Returns the faster variant: two separate primitives, or the fused one if supported.
std::unique_ptr<Prepared> prepare_fused_dw_pw(const dnnl::engine& engine, const Problem& p) {
  std::unique_ptr<Prepared> two = two_calls(engine, p);
  try {
    std::unique_ptr<Prepared> one = fused(engine, p);
    if (seconds_of(*one) < seconds_of(*two)) return one;
  } catch (const std::exception&) {
  }
  return two;
}

}  // namespace lathe::bench
