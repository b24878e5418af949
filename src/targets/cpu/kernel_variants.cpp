// SPDX-License-Identifier: MIT
#include "targets/cpu/kernel_variants.h"

#include <fmt/format.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "base/log.h"
#include "base/os_thread.h"
#include "codegen/narrow.h"
#include "codegen/split.h"

namespace lathe::cpu {
namespace {

constexpr int kLogLevel = 4;  // of generated code

// What a process shares. A child of fork() has its own, as a thread of the parent may hold the
// other for ever; that one leaks.
struct Generation {
  std::mutex mutex;  // held while code is generated
  uint64_t process = fork_generation();
  std::unordered_map<std::string, std::weak_ptr<const KernelVariants>> known;  // by description
  size_t most = 64;  // entries before those without a kernel are dropped
};

Generation& generation() {
  static std::atomic<Generation*> current{new Generation};
  Generation* found = current.load(std::memory_order_acquire);
  while (found->process != fork_generation()) {
    auto own = std::make_unique<Generation>();
    if (current.compare_exchange_strong(found, own.get())) return *own.release();
  }
  return *found;
}

// Two keys are equal if and only if the descriptions are.
std::string key_of(const codegen::KernelDescription& kernel, codegen::Isa isa) {
  std::string key;
  const auto add = [&](auto... values) {
    (key.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  };
  add(isa, kernel.operands.size(), kernel.form.nodes().size());
  for (const codegen::KernelOperand& operand : kernel.operands) {
    add(operand.type, operand.one_per_row);
  }
  for (const codegen::Node& node : kernel.form.nodes()) {
    add(node.kind, node.op, node.type, node.input_type, node.bits);
    for (const codegen::NodeId input : node.inputs) add(input);
  }
  for (const codegen::Phase& phase : kernel.phases) {
    add(phase.stores.size(), phase.reductions.size());
    for (const codegen::Store& store : phase.stores)
      add(store.value, store.operand, store.type, store.high);
    for (const codegen::Reduction& reduction : phase.reductions) {
      add(reduction.op, reduction.value, reduction.scalar);
    }
  }
  return key;
}

}  // namespace

std::shared_ptr<const KernelVariants> KernelVariants::make(codegen::KernelDescription kernel,
                                                           Isa isa) {
  const codegen::Isa own = isa >= Isa::avx512 ? codegen::Isa::avx512 : codegen::Isa::avx2;
  if (!codegen::host_supports(own)) return nullptr;
  if (codegen::KernelDescription narrow = codegen::narrow(kernel);
      codegen::why_not_generated(narrow, own).empty()) {
    kernel = std::move(narrow);
  } else {
    std::optional<codegen::KernelDescription> split = codegen::split(kernel);
    if (!split || !codegen::why_not_generated(*split, own).empty()) return nullptr;
    kernel = std::move(*split);
  }
  std::string key = key_of(kernel, own);
  Generation& all = generation();
  const std::scoped_lock lock(all.mutex);
  std::weak_ptr<const KernelVariants>& known = all.known[std::move(key)];
  if (auto found = known.lock()) return found;
  const std::shared_ptr<const KernelVariants> made(new KernelVariants(std::move(kernel), own));
  known = made;
  if (all.known.size() > all.most) {
    std::erase_if(all.known, [](const auto& entry) { return entry.second.expired(); });
    all.most = 2 * all.known.size() + 64;
  }
  return made;
}

KernelVariants::~KernelVariants() { delete variants_.load(); }

const codegen::GeneratedKernel* KernelVariants::find(uint32_t one_per_row) const {
  const auto find = [&]() -> const Variant* {
    const Variant* at = variants_.load(std::memory_order_acquire);
    while (at != nullptr && at->one_per_row != one_per_row) at = at->next.get();
    return at;
  };
  if (const Variant* known = find()) return known->kernel.get();
  const std::scoped_lock lock(generation().mutex);
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

std::vector<uint32_t> KernelVariants::found() const {
  std::vector<uint32_t> out;
  const Variant* at = variants_.load(std::memory_order_acquire);
  for (; at != nullptr; at = at->next.get()) out.push_back(at->one_per_row);
  return out;
}

std::vector<std::shared_ptr<const KernelVariants>> KernelVariants::all() {
  std::vector<std::shared_ptr<const KernelVariants>> out;
  Generation& all = generation();
  const std::scoped_lock lock(all.mutex);
  for (const auto& [key, known] : all.known) {
    if (auto alive = known.lock()) out.push_back(std::move(alive));
  }
  return out;
}

}  // namespace lathe::cpu
