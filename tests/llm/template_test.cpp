// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <time.h>

#include <thread>

#include "base/error.h"
#include "llm/template/chat_template.h"
#include "llm/template/json.h"

namespace lathe::templates {
namespace {

struct Outcome {
  std::string error;  // empty for none
  std::string message;
  std::string text;
  double seconds = 0;  // CPU time of this thread
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Outcome render(const std::string& source, const std::string& variables = "{}") {
  Outcome out;
  const double start = thread_seconds();
  try {
    const Budget budget{Limits()};
    const ChatTemplate chat(source);
    out.text = chat.render(Ref<Dict>(&parse_json(variables, "variables").dict())).text;
  } catch (const TemplateError& error) {
    out.error = exception_name(error.exception());
    out.message = error.what();
  }
  out.seconds = thread_seconds() - start;
  return out;
}

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Template, hostile_templates_end_with_an_error_within_a_second) {
  const std::pair<std::string, std::string> cases[] = {
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
       "LimitError"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"},
      {"{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"},
      {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "RecursionError"},
      {"{{ 'x' * 9999999999 }}", "LimitError"},
      {"{{ [0] * 9999999999 }}", "LimitError"},
      {"{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor "
       "%}",
       "LimitError"},
      {"{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor "
       "%}"
       "{{ n.x }}",
       "LimitError"},
      {"{% set n = namespace(x=[]) %}{% for i in range(20000) %}{% set n.x = [n.x] %}{% endfor %}"
       "{{ n.x }}",
       "RecursionError"},
      {"{% set n = namespace() %}{% set n.n = n %}{{ n }}", "RecursionError"},
      {"{{ '%9999999999d' % 1 }}", "ValueError"},
      {"{{ '%1999999999d' % 1 }}", "LimitError"},
      {"{{ '{:1999999999}'.format(1) }}", "LimitError"},
      {"{{ 'x'.center(9999999999) }}", "LimitError"},
      {"{{ 'x'|indent(9999999999, true) }}", "LimitError"},
      {"{{ [[1]]|tojson(indent=9999999999) }}", "LimitError"},
      {"{{ ('a' * 9999)|replace('', 'b' * 99999) }}", "LimitError"},
      {"{{ [1]|batch(9999999999, 0)|list }}", "LimitError"},
      {"{{ range(99999)|map('center', 9999)|list }}", "LimitError"},
      {"{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}", "LimitError"},
      {"{{ range(100001) }}", "OverflowError"},
      {"{{ 9 ** 99999 }}", "NotImplementedError"},
      {"{{ 9223372036854775807 + 1 }}", "NotImplementedError"},
      {"{{ 18446744073709551616 }}", "NotImplementedError"},
      {"{{ lipsum() }}", "NotImplementedError"},
      {"{{ 'a'.encode() }}", "NotImplementedError"},
      {"{{ '\\ud800' }}", "UnicodeEncodeError"},
      {"{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}", "RecursionError"},
      {"{{ " + repeated("[", 5000), "RecursionError"},
      {"{{ " + repeated("not ", 5000) + "1 }}", "RecursionError"},
      {"{{ " + repeated("-", 5000) + "1 }}", "RecursionError"},
      {"{{ 1" + repeated(" + 1", 5000) + " }}", "RecursionError"},
      {"{{ x" + repeated(".x", 5000) + " }}", "RecursionError"},
      {"{{ x" + repeated("|e", 5000) + " }}", "RecursionError"},
      {"{{ 1" + repeated(" if 1 else 1", 5000) + " }}", "RecursionError"},
      {repeated("{% if 1 %}", 5000), "RecursionError"},
      {repeated("{% for a in b %}", 5000), "RecursionError"},
      {std::string(kMaxTemplateBytes + 1, 'x'), "LimitError"},
      {"\xff", "TemplateSyntaxError"},
  };
  for (const auto& [source, error] : cases) {
    const Outcome outcome = render(source);
    EXPECT_EQ(outcome.error, error) << source.substr(0, 120) << "\n" << outcome.message;
    EXPECT_LT(outcome.seconds, 5) << source.substr(0, 120);
  }
}

TEST(Template, long_chains_without_nesting_are_fine) {
  EXPECT_EQ(render("{{ 'a'" + repeated(" ~ 'a'", 2000) + " }}").text, std::string(2001, 'a'));
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}x", 500) + "{% else %}y{% endif %}").text,
            "y");
  EXPECT_EQ(render(repeated("{{ 1 }}", 5000)).text, std::string(5000, '1'));
}

TEST(Template, deep_and_large_data_is_bounded) {
  EXPECT_THROW(parse_json(std::string(5000, '['), "data"), Error);
  EXPECT_THROW(parse_json("18446744073709551615", "data"), Error);
  EXPECT_THROW(parse_json("123456789012345678901234567890", "data"), Error);
  EXPECT_THROW(parse_json("{\"a\": }", "data"), Error);
  EXPECT_EQ(to_json(parse_json("{\"b\": 1, \"a\": [1.0, 1e5, null]}", "data"), {}),
            "{\"b\": 1, \"a\": [1.0, 100000.0, null]}");
}

TEST(Template, errors_name_the_line_and_pass_messages_on) {
  const Outcome raised = render("\n\n{{ raise_exception('Roles must alternate\x1b[31m') }}");
  EXPECT_EQ(raised.message,
            "the chat template raised: Roles must alternate\\x1b[31m\n  in the template, line 3");
  EXPECT_EQ(render("a\n{{ x.y }}").message,
            "chat template: UndefinedError: 'x' is undefined\n  in the template, line 2");
  EXPECT_EQ(render("{% if %}").error, "TemplateSyntaxError");
}

TEST(Template, many_threads_render_one_template) {
  const ChatTemplate chat(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% for i in range(n) %}"
      "{{ m('é' ~ i) }}{% endfor %}");
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (size_t t = 0; t < texts.size(); ++t) {
    threads.emplace_back([&, t] {
      const Budget budget{Limits()};
      for (int round = 0; round < 50; ++round) {
        const Ref<Dict> variables = make<Dict>();
        variables->set("n", Value::integer(static_cast<int64_t>(t) + 1));
        texts[t] = chat.render(variables).text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts[3], "<é0><é1><é2><é3>");
  EXPECT_EQ(texts[0], "<é0>");
}

TEST(Template, requests_have_variables_and_continuations) {
  const auto chat = ChatTemplates::of(
      "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ extra }}"
      "{% if add_generation_prompt %}go{% endif %}");
  EXPECT_EQ(chat.render(read_chat_request("[{\"role\": \"user\", \"content\": \"a\"}]")).text,
            "user:a;");
  EXPECT_EQ(chat.render(read_chat_request("{\"messages\": [{\"role\": \"u\", \"content\": \"a\"}],"
                                          "\"extra\": 1.50, \"add_generation_prompt\": true}"))
                .text,
            "u:a;1.5go");
  EXPECT_EQ(chat.render(read_chat_request("{\"messages\": [{\"role\": \"u\", \"content\": \"a \"}],"
                                          "\"continue_final_message\": true}"))
                .text,
            "u:a ");
  for (const char* bad : {"[]", "{}", "5", "[5]", "{\"messages\": 5}", "nonsense",
                          "{\"messages\": [{}], \"add_generation_prompt\": 5}",
                          "{\"messages\": [{}], \"continue_final_message\": true}"}) {
    EXPECT_THROW(chat.render(read_chat_request(bad)), Error) << bad;
  }
}

}  // namespace
}  // namespace lathe::templates
