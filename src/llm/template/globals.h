// SPDX-License-Identifier: MIT
// The global names of chat templates.
#pragma once

#include "llm/template/value.h"

namespace lathe::templates {

class Interpreter;

// range, dict, namespace, cycler, joiner, lipsum, raise_exception and strftime_now.
Ref<Dict> make_globals(Interpreter& interpreter);

// Fixes datetime.now() in this thread during its lifetime, for tests.
class FixedTime {
 public:
  explicit FixedTime(int64_t seconds, int64_t microseconds = 0);
  ~FixedTime();
  FixedTime(const FixedTime&) = delete;
  FixedTime& operator=(const FixedTime&) = delete;
};
std::string strftime_now(std::string_view format);

}  // namespace lathe::templates
