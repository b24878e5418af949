// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_variants.h"

#include <fmt/format.h>

#include <mutex>
#include <string>

#include "base/log.h"
#include "base/os_thread.h"
#include "codegen/narrow.h"

namespace lathe::cpu {
namespace {

constexpr int kLogLevel = 4;  // of generated code

// Held while code is generated. A child of fork() has its own, as a thread of the parent may hold
// the other for ever; that one leaks.
std::mutex& generation_mutex() {
  struct State {
    std::mutex mutex;
    uint64_t process = fork_generation();
  };
  static std::atomic<State*> current{new State};
  State* found = current.load(std::memory_order_acquire);
  while (found->process != fork_generation()) {
    auto own = std::make_unique<State>();
    if (current.compare_exchange_strong(found, own.get())) return own.release()->mutex;
  }
  return found->mutex;
}

}  // namespace

std::unique_ptr<const KernelVariants> KernelVariants::make(codegen::KernelDescription kernel,
                                                           Isa isa) {
  const codegen::Isa own = isa >= Isa::avx512 ? codegen::Isa::avx512 : codegen::Isa::avx2;
  if (!codegen::host_supports(own)) return nullptr;
  kernel = codegen::narrow(kernel);
  if (!codegen::why_not_generated(kernel, own).empty()) return nullptr;
  return std::unique_ptr<const KernelVariants>(new KernelVariants(std::move(kernel), own));
}

KernelVariants::~KernelVariants() { delete variants_.load(); }

const codegen::GeneratedKernel* KernelVariants::find(uint32_t one_per_row) const {
  const auto find = [&]() -> const Variant* {
    const Variant* at = variants_.load(std::memory_order_acquire);
    while (at != nullptr && at->one_per_row != one_per_row) at = at->next.get();
    return at;
  };
  if (const Variant* known = find()) return known->kernel.get();
  const std::scoped_lock lock(generation_mutex());
  if (const Variant* known = find()) return known->kernel.get();
  codegen::KernelDescription kernel = kernel_;
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    kernel.operands[i].one_per_row = (one_per_row >> i & 1) != 0;
  }
  auto added = std::make_unique<Variant>();
  added->one_per_row = one_per_row;
  std::string assembly;
  added->kernel = codegen::generate(kernel, isa_, logs(kLogLevel) ? &assembly : nullptr);
  if (!assembly.empty() && added->kernel != nullptr) {
    log_line(kLogLevel,
             fmt::format("generated {} bytes for {}, {} operands:\n{}", added->kernel->bytes(),
                         codegen::to_string(isa_), kernel.operands.size(), assembly));
  }
  added->next.reset(variants_.load());
  const Variant* published = added.release();
  variants_.store(published, std::memory_order_release);
  return published->kernel.get();
}

}  // namespace lathe::cpu
