// SPDX-License-Identifier: MIT
// Recognises a digit with ONNX Runtime on Lathe, in C++ and without linking to either.
//
// usage: classify LIBONNXRUNTIME LIBLATHE_ORT MODEL.onnx < NUMBERS.txt
//   LIBONNXRUNTIME: onnxruntime/capi/libonnxruntime.so.VERSION of the Python package, or a
//   release's library
#include <dlfcn.h>
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

const OrtApi* ort = nullptr;

[[noreturn]] void stop(const char* text) {
  std::fprintf(stderr, "%s\n", text);
  std::exit(1);
}

// Ends the program with the message of an error.
void check(OrtStatus* status) {
  if (status != nullptr) stop(ort->GetErrorMessage(status));
}

template <class T>
auto hold(T* object, void(ORT_API_CALL* release)(T*)) {
  return std::unique_ptr<T, void(ORT_API_CALL*)(T*)>(object, release);
}

// The devices that the registered library offers under this name.
std::vector<const OrtEpDevice*> devices_of(const OrtEnv& env, std::string_view name) {
  const OrtEpDevice* const* all = nullptr;
  size_t count = 0;
  check(ort->GetEpDevices(&env, &all, &count));
  std::vector<const OrtEpDevice*> out;
  std::copy_if(all, all + count, std::back_inserter(out),
               [&](const OrtEpDevice* device) { return ort->EpDevice_EpName(device) == name; });
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) stop("usage: classify LIBONNXRUNTIME LIBLATHE_ORT MODEL.onnx < NUMBERS.txt");
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) stop(dlerror());
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (base == nullptr) stop("this library is not ONNX Runtime");
  ort = base()->GetApi(ORT_API_VERSION);
  if (ort == nullptr) stop("this ONNX Runtime is older than the header");

  OrtEnv* made_env = nullptr;
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "classify", &made_env));
  const auto env = hold(made_env, ort->ReleaseEnv);
  // Relative paths would start at ONNX Runtime's own library.
  const std::string plugin = std::filesystem::absolute(argv[2]);
  check(ort->RegisterExecutionProviderLibrary(env.get(), "lathe", plugin.c_str()));
  const auto devices = devices_of(*env, "lathe");

  OrtSessionOptions* made_options = nullptr;
  check(ort->CreateSessionOptions(&made_options));
  const auto options = hold(made_options, ort->ReleaseSessionOptions);
  const char* const key = "strict";  // an error if a node stays with another EP
  const char* const value = "1";
  check(ort->SessionOptionsAppendExecutionProvider_V2(options.get(), env.get(), devices.data(),
                                                      devices.size(), &key, &value, 1));
  OrtSession* made_session = nullptr;
  check(ort->CreateSession(env.get(), argv[3], options.get(), &made_session));
  auto session = hold(made_session, ort->ReleaseSession);

  OrtAllocator* allocator = nullptr;
  check(ort->GetAllocatorWithDefaultOptions(&allocator));
  std::array<char*, 2> names{};
  check(ort->SessionGetInputName(session.get(), 0, allocator, &names[0]));
  check(ort->SessionGetOutputName(session.get(), 0, allocator, &names[1]));
  OrtTypeInfo* made_type = nullptr;
  check(ort->SessionGetInputTypeInfo(session.get(), 0, &made_type));
  const auto type = hold(made_type, ort->ReleaseTypeInfo);
  const OrtTensorTypeAndShapeInfo* shape = nullptr;
  check(ort->CastTypeInfoToTensorInfo(type.get(), &shape));
  size_t rank = 0;
  check(ort->GetDimensionsCount(shape, &rank));
  std::vector<int64_t> dims(rank);
  check(ort->GetDimensions(shape, dims.data(), rank));
  size_t count = 1;
  for (int64_t& dim : dims) {
    dim = std::max<int64_t>(dim, 1);  // one image
    count *= static_cast<size_t>(dim);
  }

  std::vector<float> pixels(count);
  for (float& pixel : pixels) std::cin >> pixel;
  OrtMemoryInfo* made_memory = nullptr;
  check(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &made_memory));
  const auto memory = hold(made_memory, ort->ReleaseMemoryInfo);
  OrtValue* made_input = nullptr;
  check(ort->CreateTensorWithDataAsOrtValue(memory.get(), pixels.data(), count * sizeof(float),
                                            dims.data(), rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                            &made_input));
  const auto input = hold(made_input, ort->ReleaseValue);
  const OrtValue* const inputs = input.get();
  OrtValue* made_output = nullptr;
  check(ort->Run(session.get(), nullptr, &names[0], &inputs, 1, &names[1], 1, &made_output));
  const auto output = hold(made_output, ort->ReleaseValue);
  float* scores = nullptr;
  check(ort->GetTensorMutableData(output.get(), reinterpret_cast<void**>(&scores)));
  constexpr int kDigits = 10;
  std::printf("digit %d\n", static_cast<int>(std::max_element(scores, scores + kDigits) - scores));

  for (char* name : names) check(ort->AllocatorFree(allocator, name));
  session.reset();
  check(ort->UnregisterExecutionProviderLibrary(env.get(), "lathe"));
}
