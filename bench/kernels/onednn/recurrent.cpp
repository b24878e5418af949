// SPDX-License-Identifier: MIT
#include "bench/kernels/onednn/peer.h"

namespace lathe::bench {

using dnnl::memory;

namespace {

std::vector<float> weights(uint64_t operand, int64_t count, int64_t depth) {
  std::vector<float> out = operand_values(operand, count, Range::real);
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  for (float& x : out) x *= scale;
  return out;
}

// Transposes [gates, hidden, depth] to [depth, gates, hidden], with the gates in `order`.
std::vector<float> transposed(const std::vector<float>& from, const std::vector<int64_t>& order,
                              int64_t hidden, int64_t depth) {
  std::vector<float> out;
  for (int64_t k = 0; k < depth; ++k) {
    for (const int64_t gate : order) {
      for (int64_t u = 0; u < hidden; ++u) {
        out.push_back(from[static_cast<size_t>((gate * hidden + u) * depth + k)]);
      }
    }
  }
  return out;
}

}  // namespace

// One layer, one direction. Reorders ONNX's gates to oneDNN's order and adds both biases.
std::unique_ptr<Prepared> prepare_recurrent(const dnnl::engine& engine, const Problem& p) {
  auto prepared = std::make_unique<Prepared>(engine, p);
  const bool is_lstm = p.kind == "lstm";
  const std::vector<int64_t> order =
      is_lstm ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 1, 2};
  const auto gates = static_cast<int64_t>(order.size());
  const int64_t steps = p["steps"], batch = p["batch"], input = p["input"], hidden = p["hidden"];
  const auto f32 = memory::data_type::f32;
  const memory::dims x{steps, batch, input}, y{steps, batch, hidden};
  const memory::desc x_desc(x, f32, row_major(x)), y_desc(y, f32, row_major(y));
  const auto any = memory::format_tag::any;
  const memory::desc w_desc({1, 1, input, gates, hidden}, f32, any);
  const memory::desc r_desc({1, 1, hidden, gates, hidden}, f32, any);
  const memory::desc b_desc({1, 1, gates, hidden}, f32, memory::format_tag::ldgo);
  const memory::desc none;
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto direction = dnnl::rnn_direction::unidirectional_left2right;
  const std::vector<float> both = weights(3, 2 * gates * hidden, 4);
  std::vector<float> bias;
  for (const int64_t gate : order) {
    for (int64_t u = 0; u < hidden; ++u) {
      const auto at = static_cast<size_t>(gate * hidden + u);
      bias.push_back(both[at] + both[at + static_cast<size_t>(gates * hidden)]);
    }
  }
  const auto finish = [&](const auto& description, dnnl::primitive primitive) {
    prepared->add(DNNL_ARG_SRC_LAYER, description.src_layer_desc(),
                  operand_values(0, steps * batch * input, Range::real));
    prepared->add(DNNL_ARG_WEIGHTS_LAYER, description.weights_layer_desc(),
                  transposed(weights(1, gates * hidden * input, input), order, hidden, input));
    prepared->add(DNNL_ARG_WEIGHTS_ITER, description.weights_iter_desc(),
                  transposed(weights(2, gates * hidden * hidden, hidden), order, hidden, hidden));
    prepared->add(DNNL_ARG_BIAS, description.bias_desc(), bias);
    prepared->finish(std::move(primitive), description.dst_layer_desc(),
                     description.impl_info_str());
  };
#if DNNL_VERSION_MAJOR >= 3
  if (is_lstm) {
    const dnnl::lstm_forward::primitive_desc description(
        engine, kind, direction, x_desc, none, none, w_desc, r_desc, b_desc, y_desc, none, none);
    finish(description, dnnl::lstm_forward(description));
  } else {
    const dnnl::gru_forward::primitive_desc description(engine, kind, direction, x_desc, none,
                                                        w_desc, r_desc, b_desc, y_desc, none);
    finish(description, dnnl::gru_forward(description));
  }
#else
  if (is_lstm) {
    const dnnl::lstm_forward::primitive_desc description(
        {kind, direction, x_desc, none, none, w_desc, r_desc, b_desc, y_desc, none, none}, engine);
    finish(description, dnnl::lstm_forward(description));
  } else {
    const dnnl::gru_forward::primitive_desc description(
        {kind, direction, x_desc, none, w_desc, r_desc, b_desc, y_desc, none}, engine);
    finish(description, dnnl::gru_forward(description));
  }
#endif
  return prepared;
}

}  // namespace lathe::bench
