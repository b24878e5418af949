// SPDX-License-Identifier: MIT
// cuDNN's back end for the host driver: plain loops behind its interface, so that tests see what
// the target requires of it: layouts, padding, epilogues, which plans are made and which are kept.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "targets/gpu/libraries/cudnn_numbers.h"

using namespace lathe::gpu::cudnn;  // NOLINT: numbers

namespace {

constexpr int kInvalid = 2000;
constexpr int kNotSupported = 3000;
constexpr int kFailed = 5000;
constexpr size_t kAxes = 5;  // at most

struct Descriptor {
  int kind = 0;
  bool finalized = false;
  std::map<int, std::vector<char>> values;

  template <class T>
  std::vector<T> list(int attribute) const {
    const auto at = values.find(attribute);
    if (at == values.end()) return {};
    std::vector<T> out(at->second.size() / sizeof(T));
    std::memcpy(out.data(), at->second.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  T value(int attribute) const {
    const std::vector<T> all = list<T>(attribute);
    return all.empty() ? T{} : all.front();
  }
  const Descriptor& refer(int attribute) const { return *value<const Descriptor*>(attribute); }
};

struct TensorOf {
  int64_t id = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

// What a plan computes, as numbers.
struct Work {
  int64_t type = 0;
  std::vector<int64_t> strides, dilations, before;
  TensorOf x, w, y, residual, bias;
  int64_t relu = 0;

  template <class F>
  void each(F&& field) {
    field(type);
    for (auto* all : {&strides, &dilations, &before}) field(*all);
    for (auto* tensor : {&x, &w, &y, &residual, &bias}) {
      field(tensor->id);
      field(tensor->dims);
      field(tensor->strides);
    }
    field(relu);
  }
};

struct Write {
  std::ostringstream& out;
  void operator()(int64_t value) const { out << value << ' '; }
  void operator()(const std::vector<int64_t>& all) const {
    out << all.size() << ' ';
    for (const int64_t value : all) out << value << ' ';
  }
};
struct Read {
  std::istringstream& in;
  void operator()(int64_t& value) const { in >> value; }
  void operator()(std::vector<int64_t>& all) const {
    size_t count = 0;
    in >> count;
    all.resize(in && count <= kAxes ? count : 0);
    for (int64_t& value : all) in >> value;
  }
};

struct Plan : Descriptor {
  Work work;
};

std::atomic<int64_t> built = 0;
std::atomic<int64_t> taken = 0;
std::atomic<bool> taken_fail = false;  // when they run

std::atomic<int64_t> shared = 0;  // calls that met another with their handle

// A call with a handle, which takes a while.
class Use {
 public:
  explicit Use(void* handle) : users_(*static_cast<std::atomic<int>*>(handle)) {
    if (users_++ > 0) ++shared;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ~Use() { --users_; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::atomic<int>& users_;
};

bool is_plan(const Descriptor& d) { return d.kind == kPlan; }

TensorOf tensor_of(const Descriptor& d) {
  return {d.value<int64_t>(kTensorId), d.list<int64_t>(kTensorDims),
          d.list<int64_t>(kTensorStrides)};
}

Work work_of(const Descriptor& graph) {
  Work work;
  for (const Descriptor* operation : graph.list<const Descriptor*>(kGraphOperations)) {
    if (operation->kind == kForward) {
      const Descriptor& how = operation->refer(kForwardConvolution);
      work.strides = how.list<int64_t>(kConvolutionStrides);
      work.dilations = how.list<int64_t>(kConvolutionDilations);
      work.before = how.list<int64_t>(kConvolutionPadBegin);
      work.x = tensor_of(operation->refer(kForwardX));
      work.w = tensor_of(operation->refer(kForwardW));
      work.y = tensor_of(operation->refer(kForwardY));
      work.type = operation->refer(kForwardX).value<int>(kTensorType);
      continue;
    }
    const int mode = operation->refer(kOperationPointwise).value<int>(kPointwiseModeOf);
    work.relu |= mode == kPointwiseRelu ? 1 : 0;
    if (mode == kPointwiseAdd) {
      TensorOf other = tensor_of(operation->refer(kOperationB));
      (other.dims == work.y.dims ? work.residual : work.bias) = other;
    }
    work.y = tensor_of(operation->refer(kOperationY));
  }
  return work;
}

// The host driver marks addresses of its device.
char* real(void* pointer) {
  return reinterpret_cast<char*>(  // NOLINT
      reinterpret_cast<uintptr_t>(pointer) & ~(uintptr_t{1} << 55));
}

struct Memory {
  int64_t type;
  double read(void* memory, int64_t at) const {
    if (type == kDataF32) {
      float value = 0;
      std::memcpy(&value, real(memory) + at * 4, sizeof(value));
      return value;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, real(memory) + at * 2, sizeof(bits));
    if (type == kDataBf16) {
      const uint32_t wide = static_cast<uint32_t>(bits) << 16;
      float value = 0;
      std::memcpy(&value, &wide, sizeof(value));
      return value;
    }
    _Float16 half = 0;
    std::memcpy(&half, &bits, sizeof(half));
    return static_cast<double>(half);
  }
  void write(void* memory, int64_t at, double value) const {
    if (type == kDataF32) {
      const auto single = static_cast<float>(value);
      std::memcpy(real(memory) + at * 4, &single, sizeof(single));
    } else if (type == kDataBf16) {
      const auto single = static_cast<float>(value);
      uint32_t bits = 0;
      std::memcpy(&bits, &single, sizeof(bits));
      const auto rounded = static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
      std::memcpy(real(memory) + at * 2, &rounded, sizeof(rounded));
    } else {
      const auto half = static_cast<_Float16>(value);
      std::memcpy(real(memory) + at * 2, &half, sizeof(half));
    }
  }
};

using Index = std::array<int64_t, kAxes>;

template <class F>
void each_index(const std::vector<int64_t>& dims, F&& body) {
  Index at{};
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  for (int64_t i = 0; i < count; ++i) {
    body(at);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++at[axis] < dims[axis]) break;
      at[axis] = 0;
    }
  }
}

int64_t offset(const TensorOf& tensor, const Index& at) {
  int64_t out = 0;
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    out += tensor.dims[axis] == 1 ? 0 : at[axis] * tensor.strides[axis];
  }
  return out;
}

int compute(const Work& work, const std::map<int64_t, void*>& data) {
  const Memory memory{work.type};
  const auto at = [&](const TensorOf& tensor) { return data.at(tensor.id); };
  const int64_t depth = work.w.dims[1];
  const int64_t groups = work.x.dims[1] / depth;
  const int64_t per_group = work.w.dims[0] / groups;
  std::vector<int64_t> taps = work.w.dims;
  taps[0] = 1;
  each_index(work.y.dims, [&](const Index& y) {
    double sum = 0;
    each_index(taps, [&](const Index& tap) {
      Index x{y[0], y[1] / per_group * depth + tap[1]};
      Index w = tap;
      w[0] = y[1];
      for (size_t axis = 2; axis < work.y.dims.size(); ++axis) {
        const size_t i = axis - 2;
        x[axis] = y[axis] * work.strides[i] + tap[axis] * work.dilations[i] - work.before[i];
        if (x[axis] < 0 || x[axis] >= work.x.dims[axis]) return;
      }
      sum +=
          memory.read(at(work.x), offset(work.x, x)) * memory.read(at(work.w), offset(work.w, w));
    });
    if (!work.residual.dims.empty()) {
      sum += memory.read(at(work.residual), offset(work.residual, y));
    }
    if (!work.bias.dims.empty()) sum += memory.read(at(work.bias), offset(work.bias, y));
    if (work.relu != 0) sum = std::max(sum, 0.0);
    memory.write(at(work.y), offset(work.y, y), sum);
  });
  return 0;
}

size_t bytes_of(int type) {
  switch (type) {
    case kIsBoolean:
    case kIsCharacter:
      return 1;
    case kIsI64:
    case kIsF64:
    case kIsHandle:
    case kIsPointer:
    case kIsDescriptor:
      return 8;
    default:
      return 4;
  }
}

}  // namespace

extern "C" {

int64_t fake_plans_built() { return built; }
int64_t fake_plans_taken() { return taken; }
// From now on plans that were taken run or fail.
void fake_let_taken_fail(bool fail) { taken_fail = fail; }
int64_t fake_handles_shared() { return shared; }

int cudnnCreate(void** handle) {
  *handle = new std::atomic<int>(0);
  return 0;
}
int cudnnDestroy(void* handle) {
  delete static_cast<std::atomic<int>*>(handle);
  return 0;
}
size_t cudnnGetVersion() { return 91400; }
int cudnnSetStream(void*, void*) { return 0; }

int cudnnBackendCreateDescriptor(int kind, void** out) {
  auto* made = kind == kPlan ? new Plan : new Descriptor;
  made->kind = kind;
  *out = made;
  return 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  auto* made = static_cast<Descriptor*>(descriptor);
  if (is_plan(*made)) {
    delete static_cast<Plan*>(made);
  } else {
    delete made;
  }
  return 0;
}
int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, int64_t count,
                             const void* values) {
  auto& d = *static_cast<Descriptor*>(descriptor);
  if (d.finalized) return kInvalid;
  const char* bytes = static_cast<const char*>(values);
  d.values[attribute].assign(bytes, bytes + static_cast<size_t>(count) * bytes_of(type));
  return 0;
}
int cudnnBackendFinalize(void* descriptor) {
  auto& d = *static_cast<Descriptor*>(descriptor);
  d.finalized = true;
  if (!is_plan(d)) return 0;
  const Use use(d.value<void*>(kPlanHandle));
  auto& plan = static_cast<Plan&>(d);
  if (d.values.contains(kPlanText)) {
    const std::vector<char> text = d.list<char>(kPlanText);
    std::istringstream in(std::string(text.begin(), text.end()));
    std::string word;
    in >> word;
    plan.work.each(Read{in});
    ++taken;
    return word == "plan" && in ? 0 : kInvalid;
  }
  const Descriptor& config = d.refer(kPlanConfig);
  if (config.value<int64_t>(-1) == 0) return kNotSupported;  // the first of each heuristic
  plan.work = work_of(*config.value<const Descriptor*>(-2));
  ++built;
  return 0;
}
int cudnnBackendGetAttribute(void* descriptor, int attribute, int, int64_t count, int64_t* found,
                             void* values) {
  auto& d = *static_cast<Descriptor*>(descriptor);
  if (attribute == kHeuristicsResults) {
    *found = std::min<int64_t>(count, 2);
    const auto* graph = d.value<const Descriptor*>(kHeuristicsGraph);
    for (int64_t i = 0; i < *found; ++i) {
      auto& config = *static_cast<Descriptor**>(values)[i];
      cudnnBackendSetAttribute(&config, -1, kIsI64, 1, &i);
      cudnnBackendSetAttribute(&config, -2, kIsPointer, 1, &graph);
    }
    return 0;
  }
  if (attribute == kConfigEngine || attribute == kEngineNotes) {
    *found = attribute == kConfigEngine ? 1 : 0;
    return 0;
  }
  if (attribute == kPlanWorkspace) {
    *found = 1;
    *static_cast<int64_t*>(values) = 0;
    return 0;
  }
  if (attribute != kPlanText) return kInvalid;
  std::ostringstream out;
  out << "plan ";
  static_cast<Plan&>(d).work.each(Write{out});
  const std::string text = out.str();
  *found = static_cast<int64_t>(text.size());
  if (values != nullptr)
    std::memcpy(values, text.data(), static_cast<size_t>(std::min(count, *found)));
  return 0;
}
int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  if (handle != static_cast<Descriptor*>(plan)->value<void*>(kPlanHandle)) return kInvalid;
  const Use use(handle);
  if (taken_fail && static_cast<Descriptor*>(plan)->values.contains(kPlanText)) return kFailed;
  const auto& given = *static_cast<Descriptor*>(pack);
  const auto ids = given.list<int64_t>(kPackIds);
  const auto pointers = given.list<void*>(kPackPointers);
  std::map<int64_t, void*> data;
  for (size_t i = 0; i < ids.size(); ++i) data[ids[i]] = pointers[i];
  return compute(static_cast<Plan*>(static_cast<Descriptor*>(plan))->work, data);
}

}  // extern "C"
