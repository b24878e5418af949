// SPDX-License-Identifier: MIT
#include "targets/gpu/libraries/cudnn_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "targets/gpu/libraries/cudnn_numbers.h"

namespace lathe::gpu {
namespace {

using namespace cudnn;  // NOLINT: numbers

constexpr int64_t kMostConfigs = 16;
constexpr int64_t kMostNotes = 16;

int type_of(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return kDataF16;
    case ElementType::bf16:
      return kDataBf16;
    case ElementType::f64:
      return kDataF64;
    default:
      return kDataF32;
  }
}

int64_t alignment_of(const void* data) {
  constexpr int kMostBits = 4;
  return int64_t{1} << std::min(std::countr_zero(reinterpret_cast<uintptr_t>(data)), kMostBits);
}

// Names of tensors in a graph.
enum Id : int64_t { kX = 1, kW, kY, kResidual, kBias, kFirstVirtual };

}  // namespace

std::vector<int64_t> key_of(const LibraryConvolution& c) {
  std::vector<int64_t> key{static_cast<int64_t>(c.type), static_cast<int64_t>(c.axes), c.relu};
  const auto add = [&](const LibraryTensor& tensor, bool present) {
    key.push_back(present ? alignment_of(tensor.data) : 0);
    if (!present) return;
    key.insert(key.end(), tensor.dims.begin(), tensor.dims.end());
    key.insert(key.end(), tensor.strides.begin(), tensor.strides.end());
  };
  add(c.x, true);
  add(c.w, true);
  add(c.y, true);
  add(c.residual, c.has_residual);
  add(c.bias, c.has_bias);
  for (const auto* list : {&c.strides, &c.dilations, &c.pad_begin, &c.pad_end}) {
    key.insert(key.end(), list->begin(), list->end());
  }
  return key;
}

CudnnPlan::CudnnPlan(const CudnnFunctions& f, std::shared_ptr<void> handle,
                     const LibraryConvolution& c)
    : f_(f), owner_(std::move(handle)), handle_(owner_.get()) {
  if (build(c) && !choose(kHeuristicA, c.type)) choose(kHeuristicFallback, c.type);
}

CudnnPlan::CudnnPlan(const CudnnFunctions& f, std::shared_ptr<void> handle, const std::string& text)
    : f_(f), owner_(std::move(handle)), handle_(owner_.get()) {
  void* plan = make(kPlan);
  if (set(plan, kPlanHandle, kIsHandle, 1, &handle_) &&
      set(plan, kPlanText, kIsCharacter, std::ssize(text), text.data()) && finalize(plan) &&
      fits(plan)) {
    plan_ = plan;
    kept_ = true;
  }
}

CudnnPlan::~CudnnPlan() {
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) f_.unmake(*made);
}

std::string CudnnPlan::text() const {
  int64_t count = 0;
  if (f_.get(plan_, kPlanText, kIsCharacter, 0, &count, nullptr) != 0 || count <= 0) return "";
  std::string text(static_cast<size_t>(count), '\0');
  const int status = f_.get(plan_, kPlanText, kIsCharacter, count, &count, text.data());
  return status == 0 ? text : "";
}

int CudnnPlan::run(StreamHandle stream, const LibraryConvolution& c, void* workspace) const {
  std::vector<int64_t> ids{kX, kW, kY};
  std::vector<void*> pointers{c.x.data, c.w.data, c.y.data};
  if (c.has_residual) {
    ids.push_back(kResidual);
    pointers.push_back(c.residual.data);
  }
  if (c.has_bias) {
    ids.push_back(kBias);
    pointers.push_back(c.bias.data);
  }
  void* pack = nullptr;
  int status = f_.set_stream(handle_, stream.native);
  if (status == 0) status = f_.make(kVariantPack, &pack);
  const auto set = [&](int attribute, int type, int64_t count, const void* values) {
    if (status == 0) status = f_.set(pack, attribute, type, count, values);
  };
  set(kPackIds, kIsI64, std::ssize(ids), ids.data());
  set(kPackPointers, kIsPointer, std::ssize(pointers), pointers.data());
  set(kPackWorkspace, kIsPointer, 1, &workspace);
  if (status == 0) status = f_.finalize(pack);
  if (status == 0) status = f_.execute(handle_, plan_, pack);
  if (pack != nullptr) f_.unmake(pack);
  return status;
}

void* CudnnPlan::make(int kind) {
  void* made = nullptr;
  if (f_.make(kind, &made) != 0) return nullptr;
  made_.push_back(made);
  return made;
}
bool CudnnPlan::set(void* descriptor, int attribute, int type, int64_t count,
                    const void* values) const {
  return descriptor != nullptr && f_.set(descriptor, attribute, type, count, values) == 0;
}
bool CudnnPlan::refer(void* descriptor, int attribute, void* other) const {
  return other != nullptr && set(descriptor, attribute, kIsDescriptor, 1, &other);
}

void* CudnnPlan::tensor(const LibraryTensor& t, int64_t id, int type, size_t axes,
                        bool is_virtual) {
  const int64_t rank = static_cast<int64_t>(axes) + 2;
  const int64_t alignment = is_virtual ? 16 : alignment_of(t.data);
  void* made = make(kTensor);
  const bool good = set(made, kTensorType, kIsDataType, 1, &type) &&
                    set(made, kTensorDims, kIsI64, rank, t.dims.data()) &&
                    set(made, kTensorStrides, kIsI64, rank, t.strides.data()) &&
                    set(made, kTensorId, kIsI64, 1, &id) &&
                    set(made, kTensorAlignment, kIsI64, 1, &alignment) &&
                    set(made, kTensorVirtual, kIsBoolean, 1, &is_virtual) && finalize(made);
  return good ? made : nullptr;
}

// An operation on single values: y = mode(x, b).
bool CudnnPlan::pointwise(int mode, void* x, void* b, void* y) {
  void* how = make(kPointwise);
  const int precision = kDataF32;
  if (!set(how, kPointwiseModeOf, kIsPointwiseMode, 1, &mode) ||
      !set(how, kPointwisePrecision, kIsDataType, 1, &precision) || !finalize(how)) {
    return false;
  }
  void* operation = make(kPointwiseOperation);
  operations_.push_back(operation);
  return refer(operation, kOperationPointwise, how) && refer(operation, kOperationX, x) &&
         (b == nullptr || refer(operation, kOperationB, b)) && refer(operation, kOperationY, y) &&
         finalize(operation);
}

bool CudnnPlan::build(const LibraryConvolution& c) {
  const int type = type_of(c.type);
  const int compute = c.type == ElementType::f64 ? kDataF64 : kDataF32;
  const auto axes = static_cast<int64_t>(c.axes);
  void* how = make(kConvolution);
  const int mode = kCrossCorrelation;
  if (!set(how, kConvolutionType, kIsDataType, 1, &compute) ||
      !set(how, kConvolutionMode, kIsConvolutionMode, 1, &mode) ||
      !set(how, kConvolutionAxes, kIsI64, 1, &axes) ||
      !set(how, kConvolutionDilations, kIsI64, axes, c.dilations.data()) ||
      !set(how, kConvolutionStrides, kIsI64, axes, c.strides.data()) ||
      !set(how, kConvolutionPadBegin, kIsI64, axes, c.pad_begin.data()) ||
      !set(how, kConvolutionPadEnd, kIsI64, axes, c.pad_end.data()) || !finalize(how)) {
    return false;
  }
  const int steps = (c.has_residual ? 1 : 0) + (c.has_bias ? 1 : 0) + (c.relu ? 1 : 0);
  // The value after step `step`: only the last is stored.
  const auto value_after = [&](int step) {
    return step == steps ? tensor(c.y, kY, type, c.axes, false)
                         : tensor(c.y, kFirstVirtual + step, compute, c.axes, true);
  };
  int step = 0;
  void* value = value_after(0);
  void* operation = make(kForward);
  operations_.push_back(operation);
  const float one = 1;
  const float zero = 0;
  if (!refer(operation, kForwardConvolution, how) ||
      !refer(operation, kForwardX, tensor(c.x, kX, type, c.axes, false)) ||
      !refer(operation, kForwardW, tensor(c.w, kW, type, c.axes, false)) ||
      !refer(operation, kForwardY, value) || !set(operation, kForwardAlpha, kIsF32, 1, &one) ||
      !set(operation, kForwardBeta, kIsF32, 1, &zero) || !finalize(operation)) {
    return false;
  }
  const auto add = [&](int mode_of, void* other) {
    void* next = value_after(++step);
    const bool good = pointwise(mode_of, value, other, next);
    value = next;
    return good;
  };
  if (c.has_residual && !add(kPointwiseAdd, tensor(c.residual, kResidual, type, c.axes, false))) {
    return false;
  }
  if (c.has_bias && !add(kPointwiseAdd, tensor(c.bias, kBias, type, c.axes, false))) {
    return false;
  }
  if (c.relu && !add(kPointwiseRelu, nullptr)) return false;
  graph_ = make(kGraph);
  return set(graph_, kGraphHandle, kIsHandle, 1, &handle_) &&
         set(graph_, kGraphOperations, kIsDescriptor, std::ssize(operations_),
             operations_.data()) &&
         finalize(graph_);
}

// f32 stays f32, sums are not rounded, and equal runs return equal bits.
bool CudnnPlan::is_exact(void* config, ElementType type) {
  void* engine = make(kEngine);
  int64_t count = 0;
  if (engine == nullptr || f_.get(config, kConfigEngine, kIsDescriptor, 1, &count, &engine) != 0) {
    return false;
  }
  std::array<int, kMostNotes> notes{};
  if (f_.get(engine, kEngineNotes, kIsNote, kMostNotes, &count, notes.data()) != 0) return false;
  return std::none_of(notes.begin(), notes.begin() + std::min(count, kMostNotes), [&](int note) {
    return note == kNoteReducedPrecision || note == kNoteNondeterministic ||
           (note == kNoteTensorCore && type == ElementType::f32) ||
           (note == kNoteDownConvert && type == ElementType::f32);
  });
}

bool CudnnPlan::fits(void* plan) const {
  int64_t workspace = 0;
  int64_t found = 0;
  return f_.get(plan, kPlanWorkspace, kIsI64, 1, &found, &workspace) == 0 &&
         workspace <= Cudnn::kUsedBytes;
}

// The first plan of the heuristic that can be built.
bool CudnnPlan::choose(int heuristic, ElementType type) {
  void* heuristics = make(kHeuristics);
  if (!refer(heuristics, kHeuristicsGraph, graph_) ||
      !set(heuristics, kHeuristicsMode, kIsHeuristic, 1, &heuristic) || !finalize(heuristics)) {
    return false;
  }
  std::array<void*, kMostConfigs> configs{};
  for (void*& config : configs) config = make(kEngineConfig);
  int64_t count = 0;
  if (f_.get(heuristics, kHeuristicsResults, kIsDescriptor, kMostConfigs, &count, configs.data()) !=
      0) {
    return false;
  }
  for (int64_t i = 0; i < std::min(count, kMostConfigs); ++i) {
    void* config = configs[static_cast<size_t>(i)];
    if (!is_exact(config, type)) continue;
    void* plan = make(kPlan);
    if (!set(plan, kPlanHandle, kIsHandle, 1, &handle_) || !refer(plan, kPlanConfig, config) ||
        !finalize(plan) || !fits(plan)) {
      continue;
    }
    plan_ = plan;
    return true;
  }
  return false;
}

}  // namespace lathe::gpu
