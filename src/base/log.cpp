// SPDX-License-Identifier: MIT
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

namespace lathe {
namespace {

std::atomic<int> current_level{0};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("lathe",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(int level) { current_level.store(level, std::memory_order_relaxed); }
int log_level() { return current_level.load(std::memory_order_relaxed); }

void log_line(int level, std::string_view text) {
  if (logs(level)) logger().info("[{}] {}", level, text);
}

void log_warning(std::string_view text) { logger().warn("warning: {}", text); }

}  // namespace lathe
