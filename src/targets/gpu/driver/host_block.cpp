// SPDX-License-Identifier: MIT
#include "targets/gpu/driver/host_block.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/os_memory.h"

#if defined(__x86_64__)
// Saves the registers that a call keeps on the stack, stores the stack's pointer at `save`, and
// goes on where `to` was saved.
extern "C" void lathe_switch_fiber(void** save, void* to);
asm(R"(
.text
.globl lathe_switch_fiber
.hidden lathe_switch_fiber
.type lathe_switch_fiber,@function
lathe_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lathe_switch_fiber,.-lathe_switch_fiber
)");
#else
static void lathe_switch_fiber(void**, void*) {}
#endif

namespace lathe::gpu {
namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kSavedRegisters = 6;
constexpr size_t kExchangeBytes = 8192;  // of a wave

enum State : int { kNew, kReady, kAtBarrier, kAtWave, kDone };

thread_local BlockRunner* runner = nullptr;

}  // namespace

struct BlockRunner::Fiber {
  HostThread thread;
  State state = kNew;
  void* stack = nullptr;
  void* saved = nullptr;  // its stack pointer
};

// What kernels call.
struct HostCallsBody {
  static const HostThread* self() { return &runner->current_->thread; }
  static void barrier() { runner->yield(kAtBarrier); }
  static void wave_barrier() { runner->yield(kAtWave); }
  static void* shared(uint32_t slot, uint64_t bytes) {
    BlockRunner& r = *runner;
    if (r.shared_.size() <= slot) {
      r.shared_.resize(slot + 1);
      r.shared_used_.resize(slot + 1);
    }
    if (!r.shared_used_[slot]) {
      r.shared_[slot].assign(bytes + 64, std::byte{0xff});  // NaN
      r.shared_used_[slot] = true;
    }
    const auto at = reinterpret_cast<uintptr_t>(r.shared_[slot].data());
    return reinterpret_cast<void*>((at + 63) & ~uintptr_t{63});  // NOLINT: aligned
  }
  static void* exchange() {
    BlockRunner& r = *runner;
    const size_t wave = r.current_->thread.thread / r.common_.wave;
    if (r.exchange_.size() <= wave) r.exchange_.resize(wave + 1);
    if (r.exchange_[wave].empty()) r.exchange_[wave].resize(kExchangeBytes);
    return r.exchange_[wave].data();
  }
  static void fault(const char* message) {
    BlockRunner& r = *runner;
    if (r.fault_.empty()) {
      const HostThread& t = r.current_->thread;
      r.fault_ = fmt::format("{} in thread {} of block {}, {}, {}", message, t.thread, t.block[0],
                             t.block[1], t.block[2]);
    }
    r.yield(kDone);
  }
  static void access(const void* address, uint32_t bytes, uint32_t kind) {
    runner->counter_.add(runner->current_->thread.thread, __builtin_return_address(0), address,
                         bytes, static_cast<AccessKind>(kind));
  }
};

const HostCalls& host_calls() {
  static const HostCalls calls{HostCallsBody::self,         HostCallsBody::barrier,
                               HostCallsBody::wave_barrier, HostCallsBody::shared,
                               HostCallsBody::exchange,     HostCallsBody::fault,
                               HostCallsBody::access};
  return calls;
}

BlockRunner::BlockRunner(const HostDriverOptions& options)
    : options_(options), random_(options.seed), counter_(static_cast<uint32_t>(options.wave)) {}

BlockRunner::~BlockRunner() {
  for (void* memory : stacks_) release_pages(memory, kStackBytes);
}

void* BlockRunner::stack() {
  if (spare_.empty()) {
    void* memory = reserve_pages(kStackBytes);
    check(memory != nullptr, ErrorKind::out_of_memory, "no memory for a stack of {} bytes",
          kStackBytes);
    stacks_.push_back(memory);
    return memory;
  }
  void* memory = spare_.back();
  spare_.pop_back();
  return memory;
}

void BlockRunner::start() {
  runner->kernel_(runner->arguments_);
  runner->yield(kDone);
}

void BlockRunner::yield(int state) {
  Fiber& fiber = *current_;
  fiber.state = static_cast<State>(state);
  lathe_switch_fiber(&fiber.saved, scheduler_);
}

void BlockRunner::resume(Fiber& fiber) {
  if (fiber.state == kNew) {
    fiber.stack = stack();
    auto* top = reinterpret_cast<void**>(static_cast<std::byte*>(fiber.stack) + kStackBytes);
    // A call leaves the stack 8 bytes off a multiple of 16.
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&BlockRunner::start);
    top -= kSavedRegisters;
    fiber.saved = top;
  }
  fiber.state = kReady;
  current_ = &fiber;
  lathe_switch_fiber(&scheduler_, fiber.saved);
  current_ = nullptr;
  if (fiber.state == kDone) spare_.push_back(fiber.stack);
}

// Waves and blocks whose threads all wait go on. False if none does.
bool BlockRunner::release_waiting() {
  bool released = false;
  const auto count_of = [](auto begin, auto end, State state) {
    return std::count_if(begin, end, [&](const Fiber& fiber) { return fiber.state == state; });
  };
  for (size_t first = 0; first < fibers_.size(); first += common_.wave) {
    const auto begin = fibers_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = fibers_.begin() +
                     static_cast<std::ptrdiff_t>(std::min(fibers_.size(), first + common_.wave));
    if (count_of(begin, end, kAtWave) != end - begin) continue;
    std::for_each(begin, end, [](Fiber& fiber) { fiber.state = kReady; });
    if (options_.count) counter_.end_step(static_cast<uint32_t>(first / common_.wave));
    released = true;
  }
  if (released) return true;
  if (count_of(fibers_.begin(), fibers_.end(), kAtBarrier) != std::ssize(fibers_)) return false;
  for (Fiber& fiber : fibers_) fiber.state = kReady;
  if (options_.count) counter_.end_step();
  return true;
}

void BlockRunner::run_block() {
  std::fill(shared_used_.begin(), shared_used_.end(), false);
  fibers_.assign(common_.threads, {});
  for (uint32_t i = 0; i < common_.threads; ++i) {
    fibers_[i].thread = common_;
    fibers_[i].thread.thread = i;
  }
  if (options_.count) counter_.begin_block(common_.threads);
  while (true) {
    if (options_.order == ThreadOrder::random) std::shuffle(order_.begin(), order_.end(), random_);
    bool all_done = true;
    for (const uint32_t i : order_) {
      Fiber& fiber = fibers_[i];
      if (fiber.state == kNew || fiber.state == kReady) resume(fiber);
      if (!fault_.empty()) break;
      all_done &= fiber.state == kDone;
    }
    if (fault_.empty() && !all_done && !release_waiting()) {
      fault_ = fmt::format("not all threads of block {}, {}, {} reach a barrier", common_.block[0],
                           common_.block[1], common_.block[2]);
    }
    if (all_done && fault_.empty()) {
      if (options_.count) counter_.end_step();
      return;
    }
    if (fault_.empty()) continue;
    for (const Fiber& fiber : fibers_) {
      if (fiber.state != kNew && fiber.state != kDone) spare_.push_back(fiber.stack);
    }
    return;
  }
}

void BlockRunner::run(HostKernel kernel, const void* arguments, const std::array<uint32_t, 3>& grid,
                      uint32_t threads) {
  kernel_ = kernel;
  arguments_ = arguments;
  fault_.clear();
  common_ = {};
  common_.threads = threads;
  common_.wave = static_cast<uint32_t>(options_.wave);
  std::ranges::copy(grid, common_.grid);
  order_.resize(threads);
  std::iota(order_.begin(), order_.end(), 0U);
  if (options_.order == ThreadOrder::descending) std::ranges::reverse(order_);
  runner = this;
  if (options_.count) counter_.begin_launch();
  const int64_t blocks = int64_t{grid[0]} * grid[1] * grid[2];
  const int64_t step =
      options_.most_blocks == 0 ? 1 : std::max<int64_t>(blocks / options_.most_blocks, 1);
  int64_t block = 0;
  for (uint32_t z = 0; z < grid[2] && fault_.empty(); ++z) {
    for (uint32_t y = 0; y < grid[1] && fault_.empty(); ++y) {
      for (uint32_t x = 0; x < grid[0] && fault_.empty(); ++x) {
        if (block++ % step != 0) continue;
        common_.block[0] = x;
        common_.block[1] = y;
        common_.block[2] = z;
        run_block();
      }
    }
  }
  runner = nullptr;
  if (!fault_.empty()) fail(ErrorKind::device, "gpu:host: {}", fault_);
}

}  // namespace lathe::gpu
