// SPDX-License-Identifier: MIT
// A library to preload: finds which functions of the program are called. LAUNCHED_FUNCTIONS names a
// file with a function's address in the program per line, in hexadecimal; LAUNCHED one to which
// those are appended that were called. A breakpoint on each function is removed when it is reached,
// so that programs run at full speed. For programs without sanitizers on Linux for x86-64.
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr uint8_t kBreakpoint = 0xCC;

struct Function {
  uintptr_t address = 0;
  uint8_t first = 0;  // byte of its code
  std::atomic<bool> called = false;

  explicit Function(uintptr_t at) : address(at) {}
  Function(Function&& other) noexcept : address(other.address), first(other.first) {}
  Function& operator=(Function&& other) noexcept {
    address = other.address;
    first = other.first;
    return *this;
  }
};

// Ascending by address; not changed once breakpoints are set.
std::vector<Function>& functions() {
  static std::vector<Function> all;
  return all;
}

uintptr_t base = 0;  // of the program in memory

std::atomic_ref<uint8_t> code_at(uintptr_t address) {
  return std::atomic_ref<uint8_t>(*reinterpret_cast<uint8_t*>(address));
}

// Another thread may reach the same function before it sees that the breakpoint is gone.
void reach(int /*signal*/, siginfo_t* /*info*/, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const uintptr_t address = static_cast<uintptr_t>(registers[REG_RIP]) - 1;
  auto& all = functions();
  const auto at = std::lower_bound(all.begin(), all.end(), address,
                                   [](const Function& f, uintptr_t a) { return f.address < a; });
  if (at == all.end() || at->address != address) abort();
  at->called = true;
  code_at(address).store(at->first);
  registers[REG_RIP] = static_cast<greg_t>(address);
}

void make_writable(uintptr_t address) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(address & ~(page - 1));
  if (mprotect(start, page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    perror("mprotect");
    _exit(1);
  }
}

__attribute__((constructor)) void set_breakpoints() {
  const char* list = getenv("LAUNCHED_FUNCTIONS");
  if (list == nullptr) return;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        base = info->dlpi_addr;
        return 1;  // the first is the program
      },
      nullptr);
  FILE* file = fopen(list, "r");
  if (file == nullptr) {
    perror(list);
    _exit(1);
  }
  unsigned long offset = 0;  // NOLINT: what %lx reads
  while (fscanf(file, "%lx", &offset) == 1) functions().emplace_back(base + offset);
  fclose(file);
  auto& all = functions();
  std::sort(all.begin(), all.end(),
            [](const Function& a, const Function& b) { return a.address < b.address; });
  struct sigaction action = {};
  action.sa_sigaction = reach;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  for (Function& function : all) {
    make_writable(function.address);
    function.first = code_at(function.address).load();
  }
  for (Function& function : all) code_at(function.address).store(kBreakpoint);
}

__attribute__((destructor)) void write_called() {
  const char* name = getenv("LAUNCHED");
  FILE* file = name == nullptr ? nullptr : fopen(name, "a");
  if (file == nullptr) return;
  for (const Function& function : functions()) {
    if (function.called)
      fprintf(file, "%lx\n", static_cast<unsigned long>(function.address - base));
  }
  fclose(file);
}

}  // namespace
