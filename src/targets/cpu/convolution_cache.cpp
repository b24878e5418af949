// SPDX-License-Identifier: MIT
#include "targets/cpu/convolution_cache.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

bool same_shape(const ConvProblem& a, const ConvProblem& b) {
  for (size_t i = 0; i < a.axes.size(); ++i) {
    const ConvAxis &own = a.axes[i], &other = b.axes[i];
    if (own.input != other.input || own.output != other.output || own.kernel != other.kernel ||
        own.pad != other.pad) {
      return false;
    }
  }
  return a.batch == b.batch && a.channels == b.channels && a.outputs == b.outputs &&
         a.x_layout == b.x_layout && a.y_layout == b.y_layout;
}

// Winograd rounds differently from the definition: see choose_form().
constexpr double kLeastGain = 1.03, kLeastGainOfWinograd = 1.1;
constexpr std::string_view kAlone = ", one thread";

// All that a form and its time depend on.
std::string problem_text(const ConvProblem& p, Isa isa) {
  std::string text = fmt::format("conv {} {} to {}", to_string(isa), p.text(), to_string(p.y_type));
  for (size_t i = 0; i < p.axes.size(); ++i) {
    const ConvAxis& axis = p.axes[i];
    if (axis.output != 1 || axis.pad != 0 || axis.dilation != 1) {
      text += fmt::format(" y{}{} d{} p{}", "dhw"[i], axis.output, axis.dilation, axis.pad);
    }
  }
  if (p.x_layout == ActivationLayout::channels_last) text += " x last";
  if (p.y_layout == ActivationLayout::channels_last) text += " y last";
  return p.scales_x ? text + " scaled" : text;
}

ConvForm chosen_form(ConvProblem problem, Isa isa) {
  const ConvForm form = choose_form(problem, isa);
  if (why_not(form, problem, isa).empty()) return form;
  problem.y_layout = ActivationLayout::channels_last;
  return choose_form(problem, isa);
}

// The cost model's form first; each with all threads and with one.
std::vector<std::string> choices_of(const ConvProblem& problem, Isa isa) {
  const ConvForm first = chosen_form(problem, isa);
  std::vector<ConvForm> forms{first};
  for (const ConvForm form :
       {ConvForm::depthwise, ConvForm::direct, ConvForm::winograd2, ConvForm::winograd4}) {
    if (form != first && why_not(form, problem, isa).empty()) forms.push_back(form);
  }
  std::vector<std::string> names;
  for (const ConvForm form : forms) names.emplace_back(to_string(form));
  names.push_back(fmt::format("{}{}", to_string(first), kAlone));
  return names;
}

std::optional<ConvForm> form_of(const TunedProblem* tuned) {
  if (tuned == nullptr) return std::nullopt;
  std::string_view name = tuned->names()[static_cast<size_t>(tuned->choice())];
  if (name.ends_with(kAlone)) name.remove_suffix(kAlone.size());
  for (int i = 0; i < kConvFormCount; ++i) {
    if (to_string(static_cast<ConvForm>(i)) == name) return static_cast<ConvForm>(i);
  }
  return std::nullopt;
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
  for (TunedNode* node = first_tuned_.load(); node != nullptr;) {
    TunedNode* next = node->next;
    delete node;
    node = next;
  }
}

void ConvolutionCache::keep(const Tensor& weights, const Tensor* zeros) {
  weights_ = weights;
  if (zeros != nullptr) zeros_ = *zeros;
}

bool ConvolutionCache::is_alone(const TunedProblem* tuned) {
  return tuned != nullptr && tuned->names()[static_cast<size_t>(tuned->choice())].ends_with(kAlone);
}

TunedProblem* ConvolutionCache::tuned(const ConvProblem& problem) const {
  if (tuning_ == nullptr || !weights_) return nullptr;
  for (const TunedNode* node = first_tuned_.load(std::memory_order_acquire); node != nullptr;
       node = node->next) {
    if (same_shape(node->problem, problem)) return node->tuned;
  }
  if (tuned_count_.fetch_add(1) >= kMaxShapes) return nullptr;
  const std::vector<std::string> names = choices_of(problem, isa_);
  std::vector<Candidate> candidates;
  for (const std::string& name : names) {
    candidates.push_back({name, name.starts_with("winograd") ? kLeastGainOfWinograd : kLeastGain});
  }
  TunedNode* node = new TunedNode{
      problem, tuning_->problem(problem_text(problem, isa_), candidates), first_tuned_.load()};
  while (!first_tuned_.compare_exchange_weak(node->next, node, std::memory_order_acq_rel)) {
  }
  return node->tuned;
}

std::shared_ptr<PreparedConvolution> ConvolutionCache::shape(ConvProblem problem,
                                                             std::optional<ConvForm> wanted) const {
  auto prepared = std::make_shared<PreparedConvolution>();
  prepared->problem = problem;
  prepared->form = wanted ? *wanted : chosen_form(problem, isa_);
  if (!why_not(prepared->form, problem, isa_).empty()) {
    problem.y_layout = ActivationLayout::channels_last;
  }
  prepared->channels_last = problem.y_layout == ActivationLayout::channels_last;
  prepared->convolution = make_convolution(prepared->form, problem, isa_);
  return prepared;
}

std::shared_ptr<const PreparedConvolution> ConvolutionCache::find(
    const ConvProblem& problem, const TunedProblem* tuned,
    const PreparedConvolution* packed_as) const {
  std::optional<ConvForm> wanted = form_of(tuned);
  for (const Node* node = first_.load(std::memory_order_acquire); node != nullptr;
       node = node->next) {
    if (same_shape(node->prepared->problem, problem) &&
        (!wanted || node->prepared->form == *wanted)) {
      return node->prepared;
    }
  }
  // No memory is reserved for results in another layout than the problem's.
  if (!wanted && packed_as != nullptr && why_not(packed_as->form, problem, isa_).empty()) {
    wanted = packed_as->form;
  }
  const std::shared_ptr<PreparedConvolution> prepared = shape(problem, wanted);
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
