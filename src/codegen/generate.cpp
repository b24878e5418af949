// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "base/error.h"
#include "codegen/kernel.h"
#if defined(__x86_64__)
#include "codegen/x86/emit.h"
#endif

namespace lathe::codegen {

std::string_view to_string(Isa isa) { return isa == Isa::avx2 ? "avx2" : "avx512"; }

bool host_supports([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2")) {
    return false;
  }
  return isa == Isa::avx2 ||
         (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
#else
  return false;
#endif
}

std::string generation_status() {
  const bool avx512 = host_supports(Isa::avx512);
  if (!avx512 && !host_supports(Isa::avx2)) {
    return "none for this processor: the interpreter runs";
  }
  const std::string method = code_memory_method();
  if (method.empty()) return "none, the system refuses executable memory: the interpreter runs";
  return fmt::format("{}, in memory of {}", to_string(avx512 ? Isa::avx512 : Isa::avx2), method);
}

std::vector<ElementType> operand_types([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  return x86::operand_types(isa);
#else
  return {};
#endif
}

// Sanitizers would read a signature before the code.
#if defined(__clang__)
[[clang::no_sanitize("function")]]
#endif
void GeneratedKernel::run(KernelCall& call) const {
  using Function = void (*)(KernelCall*);
  reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(code_.data()))(&call);
}

std::string why_not_generated([[maybe_unused]] const KernelDescription& kernel,
                              [[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (kernel.operands.size() > kMaxOperands) return "it has too many operands";
  return x86::why_not(kernel, isa);
#else
  return "no code is generated for this processor";
#endif
}

std::unique_ptr<const GeneratedKernel> generate([[maybe_unused]] const KernelDescription& kernel,
                                                [[maybe_unused]] Isa isa,
                                                [[maybe_unused]] std::string* log) {
#if defined(__x86_64__)
  const x86::Code code = x86::emit(kernel, isa, log);
  if (code.bytes.empty()) return nullptr;
  CodeMemory memory = CodeMemory::map(code.bytes);
  if (!memory) return nullptr;
  return std::make_unique<const GeneratedKernel>(std::move(memory), code.unroll);
#else
  fail(ErrorKind::internal, "no code is generated for this processor");
#endif
}

}  // namespace lathe::codegen
