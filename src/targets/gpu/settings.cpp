// SPDX-License-Identifier: MIT
#include "targets/gpu/settings.h"

#include <mutex>
#include <optional>
#include <utility>

#include "base/os_environment.h"

namespace lathe::gpu {
namespace {

struct Shared {
  std::mutex mutex;
  std::optional<Settings> settings;
};
Shared& shared() {
  static auto& made = *new Shared;
  return made;
}

}  // namespace

void set_settings(Settings settings) {
  const std::lock_guard lock(shared().mutex);
  shared().settings = std::move(settings);
}

Settings settings() {
  const std::lock_guard lock(shared().mutex);
  if (shared().settings) return *shared().settings;
  Settings made;
  made.libraries = environment_variable("LATHE_GPU_LIBRARIES").value_or("");
  return made;
}

}  // namespace lathe::gpu
