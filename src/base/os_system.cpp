// SPDX-License-Identifier: MIT
#include "base/os_system.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string_view>

#include "base/os_thread.h"

namespace lathe {
namespace {

// The value of a "name : value" line of a file under /proc, or "".
std::string proc_value(const char* file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<std::string> features() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  const auto add = [&](std::string_view name, bool present) {
    if (present) found.emplace_back(name);
  };
  __builtin_cpu_init();
  add("avx2", __builtin_cpu_supports("avx2") != 0);
  add("fma", __builtin_cpu_supports("fma") != 0);
  add("avx512f", __builtin_cpu_supports("avx512f") != 0);
  add("avx512bw", __builtin_cpu_supports("avx512bw") != 0);
  add("avx512vnni", __builtin_cpu_supports("avx512vnni") != 0);
  add("avx512bf16", __builtin_cpu_supports("avx512bf16") != 0);
  // Compilers do not agree on the names of these.
  const std::string flags = proc_value("/proc/cpuinfo", "flags") + ' ';
  for (const char* name : {"avx_vnni", "amx_tile", "amx_int8", "amx_bf16"})
    add(name, flags.find(' ' + std::string(name) + ' ') != std::string::npos);
#elif defined(__aarch64__)
  found.emplace_back("neon");
#endif
  return found;
}

int64_t kibibytes(const std::string& text) {
  return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10) * 1024;
}

}  // namespace

SystemMemory system_memory() {
  return {kibibytes(proc_value("/proc/meminfo", "MemTotal")),
          kibibytes(proc_value("/proc/meminfo", "MemAvailable"))};
}

SystemInfo system_info() {
  SystemInfo out;
  utsname name{};
  if (::uname(&name) == 0) {
    out.kernel = std::string(name.sysname) + ' ' + name.release + ' ' + name.machine;
    out.processor = name.machine;
  }
  if (std::string model = proc_value("/proc/cpuinfo", "model name"); !model.empty()) {
    out.processor = std::move(model);
  }
  out.features = features();
  out.available_cores = available_cores();
  out.memory = system_memory();
  return out;
}

}  // namespace lathe
