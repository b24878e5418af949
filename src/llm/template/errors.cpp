// SPDX-License-Identifier: MIT
#include "llm/template/errors.h"

#include <array>

namespace lathe::templates {
namespace {

struct Row {
  Exception exception;
  std::string_view name;
  ErrorKind kind;
};

// A template that cannot be parsed is an invalid model. One that fails at run time has an invalid
// argument.
constexpr std::array<Row, 21> kRows{{
    {Exception::template_error, "TemplateError", ErrorKind::invalid_argument},
    {Exception::template_syntax, "TemplateSyntaxError", ErrorKind::invalid_model},
    {Exception::template_assertion, "TemplateAssertionError", ErrorKind::invalid_model},
    {Exception::template_runtime, "TemplateRuntimeError", ErrorKind::invalid_argument},
    {Exception::undefined, "UndefinedError", ErrorKind::invalid_argument},
    {Exception::security, "SecurityError", ErrorKind::invalid_argument},
    {Exception::filter_argument, "FilterArgumentError", ErrorKind::invalid_argument},
    {Exception::type, "TypeError", ErrorKind::invalid_argument},
    {Exception::value, "ValueError", ErrorKind::invalid_argument},
    {Exception::key, "KeyError", ErrorKind::invalid_argument},
    {Exception::index, "IndexError", ErrorKind::invalid_argument},
    {Exception::attribute, "AttributeError", ErrorKind::invalid_argument},
    {Exception::zero_division, "ZeroDivisionError", ErrorKind::invalid_argument},
    {Exception::overflow, "OverflowError", ErrorKind::invalid_argument},
    {Exception::assertion, "AssertionError", ErrorKind::invalid_argument},
    {Exception::recursion, "RecursionError", ErrorKind::invalid_argument},
    {Exception::python_syntax, "SyntaxError", ErrorKind::invalid_model},
    {Exception::runtime, "RuntimeError", ErrorKind::invalid_argument},
    {Exception::unicode_encode, "UnicodeEncodeError", ErrorKind::invalid_argument},
    {Exception::limit, "LimitError", ErrorKind::invalid_argument},
    {Exception::unsupported, "NotImplementedError", ErrorKind::unsupported},
}};

const Row& row(Exception exception) {
  for (const Row& candidate : kRows) {
    if (candidate.exception == exception) return candidate;
  }
  return kRows[0];
}

std::string message_of(Exception exception, std::string_view text) {
  const std::string safe = escape(text, 2000);
  if (exception == Exception::template_error) return "the chat template raised: " + safe;
  return fmt::format("chat template: {}: {}", row(exception).name, safe);
}

}  // namespace

std::string_view exception_name(Exception exception) { return row(exception).name; }

TemplateError::TemplateError(Exception exception, std::string text, int line)
    : Error(row(exception).kind, message_of(exception, text)),
      exception_(exception),
      text_(std::move(text)),
      line_(line) {}

void raise_text(Exception exception, std::string text) {
  throw TemplateError(exception, std::move(text));
}

}  // namespace lathe::templates
