// SPDX-License-Identifier: MIT
// The C++ wrappers of chat templates. Prints "N passed, N failed, 0 skipped".
#include "lathe/chat_template.h"

#include <cstdio>
#include <string>

namespace {

int passed = 0;
int failed = 0;

void expect(bool condition, const char* what) {
  ++(condition ? passed : failed);
  if (!condition) std::printf("failed: %s\n", what);
}

template <class F>
void expect_error(lathe_error_kind kind, const char* part, F&& action) {
  try {
    action();
    expect(false, part);
  } catch (const lathe::Error& error) {
    expect(error.kind() == kind && std::string(error.what()).find(part) != std::string::npos,
           error.what());
  }
}

constexpr const char* kQuestion = R"([{"role": "user", "content": "Hi"}])";

}  // namespace

int main() {
  const lathe::ChatTemplate chat("tests/llm/templates/generation");
  const auto rendered =
      chat.render(R"([{"role": "user", "content": "é"}, {"role": "assistant", "content": "yes"}])");
  expect(rendered.text == "<|user|>\né<é>\n<|assistant|>\nyes<é>\n", "the text");
  expect(rendered.generations.size() == 1 && rendered.generations[0].begin == 28 &&
             rendered.generations[0].end == 34,
         "the marked characters");
  const auto one =
      lathe::ChatTemplate::from_source("{% for m in messages %}{{ m.content }}{% endfor %}{{ x }}");
  expect(one.render(kQuestion).text == "Hi", "a template from its source");
  expect(one.render(R"({"messages": [{"content": "a"}], "x": 5})").text == "a5", "variables");
  expect_error(LATHE_INVALID_MODEL, "Unexpected end of template",
               [] { lathe::ChatTemplate::from_source("{% if x %}"); });
  expect_error(LATHE_INVALID_ARGUMENT, "no roles here", [] {
    lathe::ChatTemplate::from_source("{{ raise_exception('no roles here') }}").render(kQuestion);
  });
  expect_error(LATHE_INVALID_ARGUMENT, "is not valid JSON", [&] { one.render("nonsense"); });
  auto slow = lathe::ChatTemplate::from_source(
      "{% for i in range(9000) %}{% for k in range(9000) %}{% endfor %}{% endfor %}");
  slow.set_time_limit(0.02);
  expect_error(LATHE_INVALID_ARGUMENT, "20 ms", [&] { slow.render(kQuestion); });
  expect_error(LATHE_IO, "nothing-here", [] { lathe::ChatTemplate("nothing-here"); });
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
