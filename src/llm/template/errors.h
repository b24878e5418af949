// SPDX-License-Identifier: MIT
// Exceptions of templates, with the names of Python and Jinja.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace lathe::templates {

enum class Exception {
  template_error,  // raise_exception()
  template_syntax,
  template_assertion,
  template_runtime,
  undefined,
  security,
  filter_argument,
  type,
  value,
  key,
  index,
  attribute,
  zero_division,
  overflow,
  assertion,
  recursion,
  python_syntax,  // errors that Python's compiler finds
  runtime,
  unicode_encode,
  limit,        // not in Python: a limit of Limits
  unsupported,  // not in Python: a feature that this engine omits
};
std::string_view exception_name(Exception exception);  // e.g. "TypeError"

// `text` is the message of Python's exception; the Error's message has it escaped.
class TemplateError : public Error {
 public:
  TemplateError(Exception exception, std::string text, int line = 0);

  Exception exception() const { return exception_; }
  const std::string& text() const { return text_; }
  int line() const { return line_; }  // 0 if unknown
  void set_line(int line) { line_ = line; }

 private:
  Exception exception_;
  std::string text_;
  int line_;
};

[[noreturn]] void raise_text(Exception exception, std::string text);

template <class... Values>
[[noreturn]] void raise(Exception exception, fmt::format_string<Values...> format,
                        Values&&... values) {
  raise_text(exception, fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace lathe::templates
