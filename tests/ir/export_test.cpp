// SPDX-License-Identifier: MIT
// Programs as DOT and JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/dot.h"
#include "ir/json.h"
#include "ir/parse.h"
#include "tests/support/contains.h"

namespace lathe {
namespace {

using test::contains;

constexpr std::string_view kText = R"(program "a \"b\"\\" stage canonical {
  meta "producer\xff" = "\xfe"
  symbol count found 0..100
  symbol past length 0..*
  state @s : f32[past] append axis 0 input "in" output "out"
  module @main(%c: bool[], %"x/\"1\"": f32[2]) {
    %w = literal f32[2] {1, 2}
    %y = test_split(%"x/\"1\"", _, %w) {axis = 1}  from "node" Split 3
    %n = test_nonzero(%y) found count
    %r = if(%c, %y) {then = @then, else = @else}
    %s = state_read() {state = "s"}
    %t = state_append(%s, %w) {state = "s"}
    return %r as "r", %w as "w"
  }
  module @then(%a: f32[2]) { return %a }
  module @else(%a: f32[2]) { return %a }
})";

TEST(Json, holds_the_whole_structure) {
  const auto json = nlohmann::json::parse(to_json(*parse_program(kText)));
  EXPECT_EQ(json["name"], "a \"b\"\\");
  EXPECT_EQ(json["stage"], "canonical");
  EXPECT_EQ(json["metadata"]["producer\\xff"], "\\xfe");
  EXPECT_EQ(json["symbols"][0]["max"], 100);
  EXPECT_TRUE(json["symbols"][1]["max"].is_null());
  EXPECT_EQ(json["states"][0]["output"], "out");
  ASSERT_EQ(json["modules"].size(), 3u);
  const auto& main = json["modules"][0];
  EXPECT_EQ(main["parameters"][1]["name"], "x/\"1\"");
  EXPECT_EQ(main["results"][1]["name"], "w");
  const auto& split = main["instructions"][1];
  EXPECT_EQ(split["op"], "test_split");
  EXPECT_TRUE(split["operands"][1].is_null());
  EXPECT_EQ(split["attributes"]["axis"], "1");
  EXPECT_EQ(split["origins"][0]["index"], 3);
  EXPECT_EQ(main["instructions"][0]["literal"]["bytes"], 8);
  EXPECT_EQ(main["instructions"][2]["found"][0], "count");
  EXPECT_EQ(main["instructions"][3]["bodies"]["else"], "else");
}

TEST(Dot, has_a_node_per_instruction_and_quotes_names) {
  const std::string dot = to_dot(*parse_program(kText));
  EXPECT_TRUE(dot.starts_with("digraph \"a \\\"b\\\"\\\\\" {\n"));
  EXPECT_TRUE(contains(dot, "[label=\"x/\\\"1\\\"\\nf32[2]\", shape=ellipse]"));
  EXPECT_TRUE(contains(dot, "[label=\"test_split\\naxis = 1\\nw f32[2]\"]"));
  EXPECT_TRUE(contains(dot, "[label=\"if\\n@then\\n@else\"]"));
  EXPECT_TRUE(contains(dot, "[label=\"f32[2]\"];"));
  // Every node of an edge is declared.
  for (size_t at = dot.find(" -> "); at != std::string::npos; at = dot.find(" -> ", at + 1)) {
    const size_t begin = dot.rfind(' ', at - 1) + 1;
    const std::string from = dot.substr(begin, at - begin);
    const std::string to = dot.substr(at + 4, dot.find(' ', at + 4) - at - 4);
    EXPECT_TRUE(contains(dot, "  " + from + " [label="));
    EXPECT_TRUE(contains(dot, "  " + to + " [label="));
  }
}

}  // namespace
}  // namespace lathe
