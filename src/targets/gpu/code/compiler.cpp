// SPDX-License-Identifier: MIT
#include "targets/gpu/code/compiler.h"

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/file_map.h"
#include "base/os_library.h"
#include "base/os_private_folder.h"
#include "base/os_process.h"
#include "targets/gpu/libraries/vendor_library.h"

namespace lathe::gpu {
namespace {

struct RuntimeCompilerFunctions {
#define LATHE_FUNCTION(name, type, cuda, hip) std::add_pointer_t<type> name = nullptr;
#define LATHE_CUDA_FUNCTION(name, type, cuda) std::add_pointer_t<type> name = nullptr;
#include "targets/gpu/code/compiler_functions.inc"
#undef LATHE_FUNCTION
#undef LATHE_CUDA_FUNCTION
};

std::string key_of(const std::string& id, const std::vector<std::string>& options,
                   const std::string& text) {
  return fmt::format("{} {}\n{}", id, fmt::join(options, " "), text);
}

class RuntimeCompiler final : public Compiler {
 public:
  RuntimeCompiler(Vendor vendor, std::string architecture)
      : vendor_(vendor), architecture_(std::move(architecture)) {
    const bool cuda = vendor == Vendor::cuda;
    std::string reason;
    const VendorLibrary which = cuda ? VendorLibrary::nvrtc : VendorLibrary::hiprtc;
    library_ = open_vendor_library(which, &reason);
    check(library_ != nullptr, ErrorKind::device,
          "{} is missing ({}): install {} or name its folder in LATHE_GPU_LIBRARIES",
          info(which).name, reason, info(which).package);
    const auto find = [&](const char* name, auto& function) {
      check(find_function(*library_, name, function, &reason), ErrorKind::device,
            "{}: install a newer one ({})", reason, info(which).package);
    };
#define LATHE_FUNCTION(name, type, cuda_name, hip_name) \
  find(cuda ? #cuda_name : #hip_name, f_.name);
#define LATHE_CUDA_FUNCTION(name, type, cuda_name) \
  if (cuda) find(#cuda_name, f_.name);
#include "targets/gpu/code/compiler_functions.inc"
#undef LATHE_FUNCTION
#undef LATHE_CUDA_FUNCTION
    f_.version(&major_, &minor_);
    if (!cuda) return;
    architecture_ = supported(architecture_);
  }

  std::string id() const override {
    return fmt::format("{} {}.{} {}", to_string(vendor_), major_, minor_, architecture_);
  }

  std::string key(const Source& source) const override {
    return key_of(id(), options(), text_of(source));
  }

  std::vector<std::byte> compile(const Source& source) const override {
    const std::string text = text_of(source);
    void* program = nullptr;
    check(
        f_.create(&program, text.c_str(), (source.name + ".gpu").c_str(), 0, nullptr, nullptr) == 0,
        ErrorKind::device, "{}: no program for '{}'", id(), source.name);
    struct Destroy {
      const RuntimeCompilerFunctions& f;
      void* program;
      ~Destroy() { f.destroy(&program); }
    } const destroy{f_, program};
    const std::vector<std::string> all = options();
    std::vector<const char*> pointers;
    for (const std::string& each : all) pointers.push_back(each.c_str());
    const int status = f_.compile(program, static_cast<int>(pointers.size()), pointers.data());
    check(status == 0, ErrorKind::internal, "{} refuses '{}': {}", id(), source.name, log(program));
    size_t bytes = 0;
    f_.code_size(program, &bytes);
    check(bytes > 0, ErrorKind::internal, "{}: no code for '{}'", id(), source.name);
    std::vector<std::byte> code(bytes);
    f_.code(program, reinterpret_cast<char*>(code.data()));
    return code;
  }

 private:
  std::vector<std::string> options() const {
    if (vendor_ == Vendor::cuda) {
      return {"--gpu-architecture=" + architecture_, "-std=c++17", "--fmad=false",
              "-default-device"};
    }
    return {"--offload-arch=" + architecture_, "-std=c++17", "-ffp-contract=off", "-O3"};
  }
  std::string text_of(const Source& source) const {
    return std::string(vendor_ == Vendor::cuda ? "#define LATHE_CUDA\n" : "#define LATHE_HIP\n") +
           std::string(kernel_text("prelude.gpu")) + source.text;
  }

  std::string log(void* program) const {
    size_t bytes = 0;
    f_.log_size(program, &bytes);
    std::string text(bytes, '\0');
    if (bytes > 0) f_.log(program, text.data());
    constexpr size_t kMost = 4000;
    return text.substr(0, kMost);
  }

  // The best architecture that the compiler knows and the device runs.
  std::string supported(const std::string& device) const {
    int count = 0;
    f_.architecture_count(&count);
    std::vector<int> known(static_cast<size_t>(count));
    if (count > 0) f_.architectures(known.data());
    const int own = std::atoi(device.c_str() + 3);  // after "sm_"
    int best = 0;
    for (const int number : known) {
      if (number <= own && number / 10 == own / 10) best = std::max(best, number);
    }
    check(best > 0, ErrorKind::device, "NVRTC {}.{} does not know {}: install a newer one", major_,
          minor_, device);
    return fmt::format("sm_{}", best);
  }

  Vendor vendor_;
  std::string architecture_;
  std::shared_ptr<const DynamicLibrary> library_;
  RuntimeCompilerFunctions f_;
  int major_ = 0;
  int minor_ = 0;
};

// clang as a program: for the host, or to check code for AMD's cards.
class ClangCompiler final : public Compiler {
 public:
  explicit ClangCompiler(std::string architecture) : architecture_(std::move(architecture)) {
    constexpr std::array<std::string_view, 2> kNames{"clang++-19", "clang++"};
    for (const std::string_view each : kNames) {
      const std::string name(each);
      const ProcessResult result = run_process({name, "--version"});
      if (!result.started || result.code != 0) continue;
      program_ = name;
      version_ = result.output.substr(0, result.output.find('\n'));
      return;
    }
    fail(ErrorKind::device, "gpu:host compiles device code with {}: install it", kNames.front());
  }
  std::string id() const override { return fmt::format("{} {}", version_, architecture_); }

  std::string key(const Source& source) const override {
    return key_of(id(), options(), text_of(source));
  }

  std::vector<std::byte> compile(const Source& source) const override {
    const std::string path = temporary_file();
    std::vector<std::string> command{program_, "-o", path};
    const std::vector<std::string> more = options();
    command.insert(command.end(), more.begin(), more.end());
    const ProcessResult result = run_process(command, {.input = text_of(source)});
    struct Remove {
      const std::string& path;
      ~Remove() {
        std::error_code error;
        std::filesystem::remove(path, error);
      }
    } const remove{path};
    check(result.started && result.code == 0, ErrorKind::internal, "{} refuses '{}' (code {})",
          id(), source.name, result.code);
    const std::shared_ptr<const FileMap> file = FileMap::open(path);
    return {file->bytes().begin(), file->bytes().end()};
  }

 private:
  bool counts() const { return architecture_ == "host counted"; }
  bool host() const { return counts() || architecture_ == "host"; }
  std::string text_of(const Source& source) const {
    return std::string(host() ? "#define LATHE_HOST\n" : "#define LATHE_HIP\n") +
           (counts() ? "#define LATHE_COUNT\n" : "") + std::string(kernel_text("prelude.gpu")) +
           source.text;
  }
  std::vector<std::string> options() const {
    std::vector<std::string> all{"-O2", "-ffp-contract=off", "-Wno-unused-function",
                                 "-Wno-unknown-pragmas", "-Wno-pass-failed"};
    const std::vector<std::string> more =
        host() ? std::vector<std::string>{"-std=c++20",
                                          "-march=x86-64-v3",
                                          "-fno-exceptions",
                                          "-fno-rtti",
                                          "-fvisibility=hidden",
                                          "-fPIC",
                                          "-shared",
                                          "-nostdlib",
                                          "-fuse-ld=lld",
                                          "-fno-strict-aliasing",
                                          "-x",
                                          "c++",
                                          "-"}
               : std::vector<std::string>{"-std=c++17",
                                          "--cuda-device-only",
                                          "-nogpuinc",
                                          "-nogpulib",
                                          "--offload-arch=" + architecture_,
                                          "-S",
                                          "-x",
                                          "hip",
                                          "-"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::string architecture_;
  std::string program_;
  std::string version_;
};

}  // namespace

std::unique_ptr<Compiler> make_compiler(Vendor vendor, const std::string& architecture) {
  if (vendor == Vendor::host) return std::make_unique<ClangCompiler>(architecture);
  return std::make_unique<RuntimeCompiler>(vendor, architecture);
}

std::unique_ptr<Compiler> make_offline_compiler(Vendor vendor, const std::string& architecture) {
  if (vendor == Vendor::cuda) return std::make_unique<RuntimeCompiler>(vendor, architecture);
  return std::make_unique<ClangCompiler>(architecture);
}

}  // namespace lathe::gpu
