// SPDX-License-Identifier: MIT
// The state of `{% autoescape %}`, off by default.
#pragma once

#include <utility>

namespace lathe::templates {

inline thread_local bool escaping = false;
inline bool is_escaping() { return escaping; }

class Escaping {
 public:
  explicit Escaping(bool is_on) : was_(std::exchange(escaping, is_on)) {}
  ~Escaping() { escaping = was_; }
  Escaping(const Escaping&) = delete;
  Escaping& operator=(const Escaping&) = delete;

 private:
  bool was_;
};

}  // namespace lathe::templates
