// SPDX-License-Identifier: MIT
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <mutex>

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

std::mutex& sink_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::function<void(int, std::string_view)>& current_sink() {
  static std::function<void(int, std::string_view)> sink;
  return sink;
}

bool to_sink(int level, std::string_view text) {
  const std::lock_guard lock(sink_mutex());
  if (!current_sink()) return false;
  current_sink()(level, text);
  return true;
}

}  // namespace

void set_log_level(int level) { current_level.store(level, std::memory_order_relaxed); }
int log_level() { return current_level.load(std::memory_order_relaxed); }

void set_log_sink(std::function<void(int level, std::string_view text)> sink) {
  const std::lock_guard lock(sink_mutex());
  current_sink() = std::move(sink);
}

void log_line(int level, std::string_view text) {
  if (logs(level) && !to_sink(level, text)) logger().info("[{}] {}", level, text);
}

void log_warning(std::string_view text) {
  if (!to_sink(0, text)) logger().warn("warning: {}", text);
}

}  // namespace lathe
