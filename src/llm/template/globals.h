// SPDX-License-Identifier: MIT
// The names that every chat template has.
#pragma once

#include "llm/template/value.h"

namespace lathe::templates {

class Interpreter;

// range, dict, namespace, cycler, joiner, lipsum, raise_exception and strftime_now.
Ref<Dict> make_globals(Interpreter& interpreter);

// datetime.now() in this thread while it lives: tests do not wait for a date.
class FixedTime {
 public:
  explicit FixedTime(int64_t seconds, int64_t microseconds = 0);
  ~FixedTime();
  FixedTime(const FixedTime&) = delete;
  FixedTime& operator=(const FixedTime&) = delete;
};
std::string strftime_now(std::string_view format);

}  // namespace lathe::templates
