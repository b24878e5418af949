// SPDX-License-Identifier: MIT
// The error class, and checks that throw it.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

// Error category: who must act. error_kinds() maps it to an exit code, HTTP status and Python
// exception.
enum class ErrorKind {
  invalid_argument,
  invalid_model,
  unsupported,
  out_of_memory,
  device,
  io,
  internal,
  interrupted,
};

struct ErrorKindInfo {
  ErrorKind kind;
  std::string_view name;  // in messages and docs, e.g. "InvalidModel"
  int exit_code;
  int http_status;
  std::string_view python_exception;
};

std::span<const ErrorKindInfo> error_kinds();
const ErrorKindInfo& error_kind_info(ErrorKind kind);

// A category, and optionally a stable word for the reason, of base/error_reason.h.
struct ErrorCause {
  constexpr ErrorCause(ErrorKind k, const char* word = nullptr)
      : kind(k), reason(word) {}  // NOLINT
  ErrorKind kind;
  const char* reason;  // a string literal; null: none
};

// A message and its context. `notes` are indented lines below the message; each layer adds its own
// (the importer adds the node, the pass runner the pass).
class Error : public std::exception {
 public:
  Error(ErrorCause cause, std::string message);

  ErrorKind kind() const { return cause_.kind; }
  const char* reason() const { return cause_.reason; }  // null: none
  // Errors of code that knows more: keeps a reason that is set.
  Error& set_reason(const char* reason);
  const std::string& message() const { return message_; }
  const std::vector<std::string>& notes() const { return notes_; }
  Error& note(std::string line);
  // Message and notes, without the leading "error: ", at most 64 KB.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void render();

  ErrorCause cause_;
  std::string message_;
  std::vector<std::string> notes_;
  std::string text_;
};

// Throws an Error. A message must contain at least one value.
template <class First, class... Rest>
[[noreturn]] void fail(ErrorCause cause, fmt::format_string<First, Rest...> format, First&& first,
                       Rest&&... rest) {
  throw Error(cause, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}

template <class First, class... Rest>
void check(bool condition, ErrorCause cause, fmt::format_string<First, Rest...> format,
           First&& first, Rest&&... rest) {
  if (!condition) [[unlikely]] {
    fail(cause, format, std::forward<First>(first), std::forward<Rest>(rest)...);
  }
}

// Makes a name from a file safe to print: control and bidirectional characters become \xNN or
// \u{NNNN}, invalid UTF-8 bytes \xNN; truncated at `max_bytes` with "…".
std::string escape(std::string_view text, size_t max_bytes = 200);

// " (did you mean 'x'?)" for the candidate with the smallest edit distance, at most a third of the
// length; else "".
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace lathe
