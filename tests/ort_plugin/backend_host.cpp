// SPDX-License-Identifier: MIT
// ONNX's backend suite through the execution provider from C++, without fallback, beside Lathe's
// own target cpu: every element type, also those that NumPy lacks.
//
// usage: ort_backend LIBONNXRUNTIME LIBLATHE_ORT FOLDER
//   FOLDER: one folder below it per case, with a model and test_data_set_0
//
// Prints the counts of the cases that the host can load and that take and return tensors alone, and
// each that Lathe passes by itself and not here. The exit status is 1 if there is such a case.
#include <dlfcn.h>
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "import/load_model.h"
#include "runtime/conformance.h"
#include "runtime/data_set.h"
#include "runtime/verification.h"
#include "targets/target.h"

namespace lathe {
namespace {

const OrtApi* ort = nullptr;

class HostError : public std::exception {
 public:
  explicit HostError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

void call(OrtStatus* status) {
  if (status == nullptr) return;
  const std::string text = ort->GetErrorMessage(status);
  ort->ReleaseStatus(status);
  throw HostError(text);
}

template <class T>
auto hold(T* object, void(ORT_API_CALL* release)(T*)) {
  return std::unique_ptr<T, void(ORT_API_CALL*)(T*)>(object, release);
}
using OrtBox = std::unique_ptr<OrtValue, void(ORT_API_CALL*)(OrtValue*)>;

// ONNX Runtime with the plug-in.
class Host {
 public:
  Host(const char* library, const std::string& plugin) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw HostError(dlerror());
    const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
    if (base == nullptr) throw HostError("this library is not ONNX Runtime");
    ort = base()->GetApi(ORT_API_VERSION);
    if (ort == nullptr) throw HostError("this ONNX Runtime is older than the header");
    version_ = base()->GetVersionString();
    call(ort->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "backend", &env_));
    call(ort->RegisterExecutionProviderLibrary(env_, "lathe", plugin.c_str()));
    call(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory_));
    call(ort->GetAllocatorWithDefaultOptions(&allocator_));
  }

  const std::string& version() const { return version_; }
  const OrtMemoryInfo* memory() const { return memory_; }
  OrtAllocator* allocator() const { return allocator_; }

  OrtSession* make_session(const std::string& path) const {
    OrtSessionOptions* made = nullptr;
    call(ort->CreateSessionOptions(&made));
    const auto options = hold(made, ort->ReleaseSessionOptions);
    call(ort->SetIntraOpNumThreads(made, 1));
    call(ort->AddSessionConfigEntry(made, "session.disable_cpu_ep_fallback", "1"));
    const OrtEpDevice* const* all = nullptr;
    size_t count = 0;
    call(ort->GetEpDevices(env_, &all, &count));
    const OrtEpDevice* const* device = std::find_if(all, all + count, [](const OrtEpDevice* each) {
      return std::string_view(ort->EpDevice_EpName(each)) == "lathe";
    });
    if (device == all + count) throw HostError("no device is called 'lathe'");
    call(ort->SessionOptionsAppendExecutionProvider_V2(made, env_, device, 1, nullptr, nullptr, 0));
    OrtSession* session = nullptr;
    call(ort->CreateSession(env_, path.c_str(), made, &session));
    return session;
  }

 private:
  std::string version_;
  OrtEnv* env_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
};

std::vector<std::string> names_of(const Host& host, const OrtSession* session, bool inputs) {
  std::vector<std::string> out;
  size_t count = 0;
  call(inputs ? ort->SessionGetInputCount(session, &count)
              : ort->SessionGetOutputCount(session, &count));
  for (size_t i = 0; i < count; ++i) {
    char* name = nullptr;
    call((inputs ? ort->SessionGetInputName : ort->SessionGetOutputName)(session, i,
                                                                         host.allocator(), &name));
    out.emplace_back(name);
    call(ort->AllocatorFree(host.allocator(), name));
  }
  return out;
}

// The numbers above 23, which 1.23 lacks, are others than in ONNX's TensorProto.
ONNXTensorElementDataType number_of(ElementType type) {
  if (type == ElementType::f8e8m0) return static_cast<ONNXTensorElementDataType>(26);
  if (type == ElementType::u2) return static_cast<ONNXTensorElementDataType>(24);
  if (type == ElementType::i2) return static_cast<ONNXTensorElementDataType>(25);
  return static_cast<ONNXTensorElementDataType>(info(type).onnx);
}

OrtBox to_value(const Host& host, const Tensor& tensor) {
  OrtValue* made = nullptr;
  const Dims& dims = tensor.dims();
  if (tensor.type() != ElementType::string) {
    call(ort->CreateTensorWithDataAsOrtValue(host.memory(), tensor.data(),
                                             static_cast<size_t>(tensor.byte_size()), dims.data(),
                                             dims.size(), number_of(tensor.type()), &made));
    return hold(made, ort->ReleaseValue);
  }
  call(ort->CreateTensorAsOrtValue(host.allocator(), dims.data(), dims.size(),
                                   ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &made));
  OrtBox out = hold(made, ort->ReleaseValue);
  std::vector<const char*> texts;
  for (const std::string& text : tensor.elements<std::string>()) texts.push_back(text.c_str());
  call(ort->FillStringTensor(made, texts.data(), texts.size()));
  return out;
}

Tensor to_tensor(OrtValue* value) {
  OrtTensorTypeAndShapeInfo* made = nullptr;
  call(ort->GetTensorTypeAndShape(value, &made));
  const auto shape = hold(made, ort->ReleaseTensorTypeAndShapeInfo);
  size_t rank = 0;
  call(ort->GetDimensionsCount(made, &rank));
  Dims dims(rank);
  if (rank > 0) call(ort->GetDimensions(made, dims.data(), rank));
  ONNXTensorElementDataType number = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  call(ort->GetTensorElementType(made, &number));
  for (const ElementTypeInfo& each : element_types()) {
    const ElementType type = each.type;
    if (number_of(type) != number) continue;
    Tensor out(type, dims);
    if (type != ElementType::string) {
      void* data = nullptr;
      call(ort->GetTensorMutableData(value, &data));
      return Tensor(type, dims, Tensor::dense_strides(dims), data, nullptr).clone();
    }
    for (size_t at = 0; at < static_cast<size_t>(out.count()); ++at) {
      size_t size = 0;
      call(ort->GetStringTensorElementLength(value, at, &size));
      std::string& text = out.as<std::string>()[at];
      text.resize(size);
      call(ort->GetStringTensorElement(value, size, at, text.data()));
    }
    return out;
  }
  throw HostError(
      fmt::format("an output has the unknown element type {}", static_cast<int>(number)));
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  for (const std::string& text : texts) out.push_back(text.c_str());
  return out;
}

// The stored values in the session's order.
template <class T>
const T& value_named(const std::string& name, const std::vector<std::string>& names,
                     const std::vector<T>& values) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end()) throw HostError(fmt::format("no value is called '{}'", name));
  return values[static_cast<size_t>(at - names.begin())];
}

// The first difference, or "".
std::string run_session(const Host& host, OrtSession* session, const std::string& model,
                        const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
  const std::unique_ptr<Program> program = load_model(model);
  const bool quantises = quantises_at_run_time(*program);
  std::vector<std::string> parameters;
  for (const auto& parameter : program->main().parameters()) {
    parameters.push_back(parameter->name());
  }
  const std::vector<std::string> results(program->main().result_names().begin(),
                                         program->main().result_names().end());
  for (const std::string& folder : data_sets_beside(model)) {
    const DataSet data = read_data_set(folder, *program);
    std::vector<Tensor> tensors;
    std::vector<OrtBox> given;
    std::vector<const OrtValue*> arguments;
    for (const std::string& name : inputs) {
      tensors.push_back(value_named(name, parameters, data.inputs).tensor().dense());
      given.push_back(to_value(host, tensors.back()));
      arguments.push_back(given.back().get());
    }
    std::vector<OrtValue*> made(outputs.size());
    call(ort->Run(session, nullptr, pointers(inputs).data(), arguments.data(), arguments.size(),
                  pointers(outputs).data(), made.size(), made.data()));
    std::vector<OrtBox> held;
    for (OrtValue* value : made) held.push_back(hold(value, ort->ReleaseValue));
    for (size_t i = 0; i < made.size(); ++i) {
      const std::string& name = outputs[i];
      const std::optional<Box>& expected = value_named(name, results, data.outputs);
      if (!expected) continue;
      const ConformanceOptions limits;
      const Box actual{to_tensor(made[i])};
      const std::string wrong =
          compare_elements(actual, *expected, limits.relative, limits.absolute);
      const bool same =
          wrong.empty() ||
          (quantises && judge_value(name, actual, *expected, {}, true).problem.empty());
      if (!same) return fmt::format("output '{}': {}", name, wrong);
    }
  }
  return "";
}

// "" or why the case fails here.
std::string run_case(const Host& host, const std::string& model) {
  try {
    const auto session = hold(host.make_session(model), ort->ReleaseSession);
    return run_session(host, session.get(), model, names_of(host, session.get(), true),
                       names_of(host, session.get(), false));
  } catch (const std::exception& error) {
    return error.what();
  }
}

// True if values of other kinds than tensors enter or leave the model.
bool has_others(const std::string& path) {
  const std::unique_ptr<Program> program = load_model(path);
  const auto is_other = [](const Value* value) { return !value->type().is_tensor(); };
  const auto& parameters = program->main().parameters();
  return std::ranges::any_of(program->main().results(), is_other) ||
         std::ranges::any_of(parameters, [&](const auto& value) { return is_other(value.get()); });
}

int run(const char* library, const char* plugin, const std::string& root) {
  // Relative paths would start at ONNX Runtime's own library.
  const Host host(library, std::filesystem::absolute(plugin));
  ConformanceOptions own;
  own.compile.target = find_target("cpu");
  enum Count { unknown, others, fails_alone, alone, passed, kCounts };
  std::array<int, kCounts> counts{};
  for (const std::string& folder : find_model_folders(root)) {
    const std::string model = folder + "/model.onnx";
    const std::string problem = run_case(host, model);
    // The host's own readers come before any execution provider.
    if (problem.starts_with("Load model from")) {
      ++counts[unknown];
    } else if (run_model_folder(folder, own).status != ConformanceStatus::passed) {
      ++counts[fails_alone];
    } else if (has_others(model)) {
      ++counts[others];
    } else {
      ++counts[alone];
      counts[passed] += static_cast<int>(problem.empty());
      if (problem.empty()) continue;
      std::printf("%s: %s\n", std::filesystem::path(folder).filename().c_str(),
                  escape(problem).c_str());
    }
  }
  const int lost = counts[alone] - counts[passed];
  std::printf(
      "backend from C++, ONNX Runtime %s, without fallback: %d passed of %d that Lathe's cpu "
      "passes, "
      "%d lost; beside them %d that it fails, %d with sequences or optionals, %d that the host "
      "does "
      "not know\n",
      host.version().c_str(), counts[passed], counts[alone], lost, counts[fails_alone],
      counts[others], counts[unknown]);
  return lost == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: ort_backend LIBONNXRUNTIME LIBLATHE_ORT FOLDER\n");
    return 2;
  }
  try {
    return lathe::run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
