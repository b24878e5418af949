// SPDX-License-Identifier: MIT
// The log: levels 1 to 6, each a superset of the previous one (LATHE_LOG).
#pragma once

#include <functional>
#include <string_view>

namespace lathe {

// 1 targets of instructions, 2 kernel times, 3 passes and changes, 4 generated code, 5 programs
// after each pass, 6 applied rules. 0 and below: warnings only.
void set_log_level(int level);
int log_level();
inline bool logs(int level) { return log_level() >= level; }

// Redirects all lines to `sink`, warnings at level 0; null: standard error. Calls of the sink come
// from any thread and never overlap.
void set_log_sink(std::function<void(int level, std::string_view text)> sink);

void log_line(int level, std::string_view text);
// Prints "warning: …" at every level.
void log_warning(std::string_view text);

}  // namespace lathe
