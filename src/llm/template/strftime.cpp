// SPDX-License-Identifier: MIT
// strftime_now: datetime.now().strftime() in the C locale.
#include <chrono>
#include <ctime>
#include <optional>
#include <string>

#include "llm/template/budget.h"
#include "llm/template/globals.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

struct Moment {
  int64_t seconds;
  int64_t microseconds;
};
thread_local std::optional<Moment> fixed_moment;

Moment now() {
  if (fixed_moment) return *fixed_moment;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const int64_t microseconds = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  return {microseconds / 1000000, microseconds % 1000000};
}

// A date without a time zone: %z, %:z and %Z are empty.
void append_directive(std::string& out, char letter, const std::tm& date, const Moment& moment) {
  if (letter == 'f') {
    out += fmt::format("{:06}", moment.microseconds);
    return;
  }
  if (letter == 'z' || letter == 'Z') return;
  char buffer[128];
  const char format[] = {'%', letter, '\0'};
  const size_t size = std::strftime(buffer, sizeof buffer, format, &date);
  out.append(buffer, size);
}

}  // namespace

FixedTime::FixedTime(int64_t seconds, int64_t microseconds) {
  fixed_moment = Moment{seconds, microseconds};
}
FixedTime::~FixedTime() { fixed_moment.reset(); }

std::string strftime_now(std::string_view format) {
  const Moment moment = now();
  const auto seconds = static_cast<std::time_t>(moment.seconds);
  std::tm date{};
  localtime_r(&seconds, &date);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    ++i;
    // glibc's flags and widths: "%-d", "%_H", "%02I".
    std::string flags;
    while (i < format.size() && flags.size() < 8 &&
           std::string_view("-_0^#123456789EO").find(format[i]) != std::string_view::npos) {
      flags += format[i++];
    }
    if (i == format.size()) {
      out += "%" + flags;
      break;
    }
    step(1);
    if (flags.empty()) {
      append_directive(out, format[i], date, moment);
      continue;
    }
    const size_t digits = flags.find_first_of("123456789");
    if (digits != std::string::npos && flags.size() - digits > 3) {
      raise(Exception::value, "Invalid format string: a field of %{}", flags);
    }
    char buffer[1200];
    const std::string part = "%" + flags + format[i];
    out.append(buffer, std::strftime(buffer, sizeof buffer, part.c_str(), &date));
  }
  return out;
}

}  // namespace lathe::templates
