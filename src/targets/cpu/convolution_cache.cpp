// SPDX-License-Identifier: MIT
#include "targets/cpu/convolution_cache.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

bool same_shape(const ConvProblem& a, const ConvProblem& b) {
  for (size_t i = 0; i < a.axes.size(); ++i) {
    if (a.axes[i].input != b.axes[i].input || a.axes[i].output != b.axes[i].output) return false;
  }
  return a.batch == b.batch && a.x_layout == b.x_layout && a.y_layout == b.y_layout;
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
  prepared->problem = problem;
  prepared->form = choose_form(problem, isa_);
  if (!why_not(prepared->form, problem, isa_).empty()) {
    problem.y_layout = ActivationLayout::channels_last;
    prepared->form = choose_form(problem, isa_);
  }
  prepared->channels_last = problem.y_layout == ActivationLayout::channels_last;
  prepared->convolution = make_convolution(prepared->form, problem, isa_);
  return prepared;
}

std::shared_ptr<const PreparedConvolution> ConvolutionCache::find(
    const ConvProblem& problem) const {
  for (const Node* node = first_.load(std::memory_order_acquire); node != nullptr;
       node = node->next) {
    if (same_shape(node->prepared->problem, problem)) return node->prepared;
  }
  const std::shared_ptr<PreparedConvolution> prepared = shape(problem);
  if (weights_) prepared->weights = packed(*prepared);
  if (count_.fetch_add(1) < kMaxShapes) {
    Node* node = new Node{prepared, first_.load()};
    while (!first_.compare_exchange_weak(node->next, node, std::memory_order_acq_rel)) {
    }
  }
  return prepared;
}

std::shared_ptr<const PackedWeights> ConvolutionCache::packed(
    const PreparedConvolution& prepared) const {
  const std::vector<int32_t> given = zeros_ ? int32_values(*zeros_) : std::vector<int32_t>{};
  std::vector<int32_t> each(static_cast<size_t>(prepared.problem.outputs));
  const ConvWeights weights{weights_->data(), weights_->type(), zero_per_output(given, each)};
  const Tensor* sources[] = {&*weights_, zeros_ ? &*zeros_ : nullptr};
  const Convolution& convolution = *prepared.convolution;
  return packed_weights(sources, convolution.packing_id(), convolution.packed_bytes(),
                        [&](void* to, ThreadPool* pool) { convolution.pack(weights, to, pool); });
}

const int32_t* zero_per_output(std::span<const int32_t> given, std::span<int32_t> memory) {
  check(given.size() <= 1 || given.size() == memory.size(), ErrorKind::invalid_argument,
        "{} weight zero points, expected 1 or {}", given.size(), memory.size());
  if (given.empty()) return nullptr;
  if (given.size() > 1) return given.data();
  std::ranges::fill(memory, given[0]);
  return memory.data();
}

bool is_supported(Isa isa, ElementType x, bool transposed) {
  ConvProblem p;
  p.x_type = p.y_type = x;
  p.transposed = transposed;
  return why_not(choose_form(p, isa), p, isa).empty();
}

}  // namespace lathe::cpu
