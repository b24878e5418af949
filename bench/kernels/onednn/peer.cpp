// SPDX-License-Identifier: MIT
#include "bench/kernels/onednn/peer.h"

namespace lathe::bench {

using dnnl::memory;

memory::data_type data_type(const std::string& type, bool is_unsigned) {
  if (type == "f32") return memory::data_type::f32;
  if (type == "bf16") return memory::data_type::bf16;
  return is_unsigned ? memory::data_type::u8 : memory::data_type::s8;
}

memory::dims row_major(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  return strides;
}

void append_activation(dnnl::post_ops& ops, const std::string& activation) {
  using dnnl::algorithm;
  const auto append = [&](algorithm which, float alpha, float beta) {
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(which, alpha, beta);
#else
    ops.append_eltwise(1.0F, which, alpha, beta);
#endif
  };
  if (activation == "relu") append(algorithm::eltwise_relu, 0, 0);
  if (activation == "gelu") append(algorithm::eltwise_gelu_erf, 0, 0);
  if (activation == "silu") append(algorithm::eltwise_swish, 1, 0);
  if (activation == "hard_swish") append(algorithm::eltwise_hardswish, 1.0F / 6, 0.5F);
}

memory Prepared::plain(const memory::dims& dims, const std::vector<float>& values) const {
  memory out({dims, memory::data_type::f32, row_major(dims)}, engine_);
  std::copy(values.begin(), values.end(), static_cast<float*>(out.get_data_handle()));
  return out;
}

void Prepared::convert(const memory& from, const memory& to) const {
  memory source = from;
  memory target = to;
  dnnl::reorder(source, target).execute(stream_, source, target);
  stream_.wait();
}

void Prepared::add(int argument, const memory::desc& layout, const std::vector<float>& values) {
#if DNNL_VERSION_MAJOR >= 3
  const memory::dims dims = layout.get_dims();
#else
  const memory::dims dims = layout.dims();
#endif
  const memory source = plain(dims, values);
  arguments_.resize(static_cast<size_t>(weight_rotations(problem_)));
  const auto copies = static_cast<size_t>(argument == DNNL_ARG_WEIGHTS ? weight_rotations(problem_)
                                                                       : rotations(problem_));
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (i >= copies) {
      arguments_[i].emplace(argument, arguments_[i - copies].at(argument));
      continue;
    }
    memory own(layout, engine_);
    convert(source, own);
    arguments_[i].emplace(argument, own);
  }
}

void Prepared::add_vector(int argument, const std::vector<float>& values) {
  const memory shared = plain({static_cast<int64_t>(values.size())}, values);
  for (Arguments& set : arguments_) set.emplace(argument, shared);
}

void Prepared::pass_on(dnnl::primitive primitive, const memory::desc& dst) {
  before_ = std::move(primitive);
  arguments_before_ = std::move(arguments_);
  arguments_.assign(arguments_before_.size(), {});
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const memory between(dst, engine_);
    arguments_before_[i].emplace(DNNL_ARG_DST, between);
    arguments_[i].emplace(DNNL_ARG_SRC, between);
  }
}

void Prepared::finish(dnnl::primitive primitive, const memory::desc& dst, std::string name) {
  primitive_ = std::move(primitive);
  implementation = std::move(name);
#if DNNL_VERSION_MAJOR >= 3
  const memory::dims dims = dst.get_dims();
#else
  const memory::dims dims = dst.dims();
#endif
  if (residual.empty()) {
    int64_t count = 1;
    for (const int64_t extent : dims) count *= extent;
    residual.assign(static_cast<size_t>(count), 0);
  }
  add(DNNL_ARG_DST, dst, residual);
}

void Prepared::run(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(next_);
    if (!arguments_before_.empty()) before_.execute(stream_, arguments_before_[at]);
    primitive_.execute(stream_, arguments_[at]);
    next_ = (next_ + 1) % static_cast<int64_t>(arguments_.size());
  }
  stream_.wait();
}

std::vector<float> Prepared::result() {
  memory& dst = arguments_[0].at(DNNL_ARG_DST);
#if DNNL_VERSION_MAJOR >= 3
  const memory::dims dims = dst.get_desc().get_dims();
#else
  const memory::dims dims = dst.get_desc().dims();
#endif
  convert(plain(dims, residual), dst);
  next_ = 0;
  run(1);
  std::vector<float> out(residual.size());
  const memory target = plain(dims, out);
  convert(dst, target);
  const auto* values = static_cast<const float*>(target.get_data_handle());
  std::copy(values, values + out.size(), out.begin());
  return out;
}

}  // namespace lathe::bench
