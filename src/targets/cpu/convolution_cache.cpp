// SPDX-License-Identifier: MIT
#include "targets/cpu/convolution_cache.h"

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

bool same_shape(const ConvProblem& a, const ConvProblem& b) {
  for (size_t i = 0; i < a.axes.size(); ++i) {
    if (a.axes[i].input != b.axes[i].input || a.axes[i].output != b.axes[i].output) return false;
  }
  return a.batch == b.batch;
}

// One zero point per output channel.
std::vector<int32_t> filled(std::vector<int32_t> zeros, int64_t outputs) {
  if (zeros.size() == 1) zeros.assign(static_cast<size_t>(outputs), zeros[0]);
  check(zeros.empty() || static_cast<int64_t>(zeros.size()) == outputs, ErrorKind::invalid_argument,
        "{} weight zero points, expected 1 or {}", zeros.size(), outputs);
  return zeros;
}

std::vector<int32_t> int32_values(const Tensor& tensor) {
  std::vector<int32_t> out(static_cast<size_t>(tensor.count()));
  convert(ElementType::i32, out.data(), tensor.type(), tensor.dense().data(), tensor.count());
  return out;
}

}  // namespace

ConvolutionCache::~ConvolutionCache() {
  for (Node* node = first_.load(); node != nullptr;) {
    Node* next = node->next;
    delete node;
    node = next;
  }
}

void ConvolutionCache::keep(const Tensor& weights, const Tensor* zeros) {
  weights_ = weights;
  if (zeros != nullptr) zeros_ = *zeros;
}

std::shared_ptr<PreparedConvolution> ConvolutionCache::shape(ConvProblem problem) const {
  auto prepared = std::make_shared<PreparedConvolution>();
  ConvForm form = choose_form(problem, isa_);
  prepared->problem = problem;
  if (!why_not(form, problem, isa_).empty()) {
    problem.y_layout = ActivationLayout::channels_last;
    prepared->channels_last = true;
    form = choose_form(problem, isa_);
  }
  prepared->form = form;
  prepared->convolution = make_convolution(form, problem, isa_);
  return prepared;
}

std::shared_ptr<const PreparedConvolution> ConvolutionCache::find(
    const ConvProblem& problem) const {
  for (const Node* node = first_.load(std::memory_order_acquire); node != nullptr;
       node = node->next) {
    if (same_shape(node->prepared->problem, problem)) return node->prepared;
  }
  const std::shared_ptr<PreparedConvolution> prepared = shape(problem);
  const std::vector<int32_t> zeros =
      filled(zeros_ ? int32_values(*zeros_) : std::vector<int32_t>{}, problem.outputs);
  const Tensor* sources[] = {&*weights_, zeros_ ? &*zeros_ : nullptr};
  const ConvWeights weights{weights_->data(), weights_->type(),
                            zeros.empty() ? nullptr : zeros.data()};
  prepared->weights = packed_weights(
      sources, prepared->convolution->packing_id(), prepared->convolution->packed_bytes(),
      [&](void* to, ThreadPool* pool) { prepared->convolution->pack(weights, to, pool); });
  if (count_.fetch_add(1) < kMaxShapes) {
    Node* node = new Node{prepared, first_.load()};
    while (!first_.compare_exchange_weak(node->next, node, std::memory_order_acq_rel)) {
    }
  }
  return prepared;
}

std::shared_ptr<const PreparedConvolution> ConvolutionCache::make(
    const ConvProblem& problem, const Tensor& weights, const std::vector<int32_t>& zeros) const {
  const std::shared_ptr<PreparedConvolution> prepared = shape(problem);
  const std::vector<int32_t> each = filled(zeros, problem.outputs);
  auto packed = std::make_shared<const PackedWeights>(
      std::max<size_t>(1, prepared->convolution->packed_bytes()));
  prepared->convolution->pack(
      {weights.data(), weights.type(), each.empty() ? nullptr : each.data()}, packed->data(),
      nullptr);
  prepared->weights = std::move(packed);
  return prepared;
}

bool is_supported(Isa isa, ElementType x, bool transposed) {
  ConvProblem p;
  p.x_type = p.y_type = x;
  p.transposed = transposed;
  return why_not(choose_form(p, isa), p, isa).empty();
}

}  // namespace lathe::cpu
