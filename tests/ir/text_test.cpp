// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file_map.h"
#include "base/quote.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "tests/support/contains.h"

namespace lathe {
namespace {

using Strings = std::vector<std::string>;

using test::contains;

// Parses, prints, parses and prints again; both texts must be equal.
std::string round_trip(std::string_view text, bool verify = true) {
  ParseOptions options;
  options.verify = verify;
  const std::string once = print(*parse_program(text, options));
  const std::string twice = print(*parse_program(once, options));
  EXPECT_EQ(once, twice);
  return twice;
}

std::string in_main(std::string_view body, std::string_view parameters = "%x: f32[2, 3]",
                    std::string_view declarations = "") {
  return fmt::format("program \"t\" stage imported {{\n{}\n  module @main({}) {{\n{}\n  }}\n}}\n",
                     declarations, parameters, body);
}

Error error_of(std::string_view text) {
  try {
    parse_program(text, {.file = "t.lathe"});
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error for " << text;
  return {ErrorKind::internal, "none"};
}

constexpr std::string_view kEverything = R"(program "model \"a\".onnx" stage imported {
  meta "empty" = ""
  meta "producer" = "pytorch"
  symbol "2 rows" bound 1..* preferred 1, 8
  symbol batch bound 1..*
  symbol count found 0..100
  symbol past length 0..2048
  symbol signed bound *..7

  module @main(%x: f32[batch, 3], %"odd/name \"q\"": f32["2 rows", 3], %s: seq<opt<f32[*]>>, %m: map<string, i64[2*batch + 1]>) {
    require broadcast(batch, "2 rows"): "test_add: axis 0"
    require batch == "2 rows": "test_same: rows of a and b"
    require batch <= past: "by hand"
    assume floor_div(batch, 2) == past: "a \"shared\" name"
    %w = literal f32[3] {1.5, -0, inf}
    %y = test_add(%x, %w) : f32[batch, 3]  from "conv1" Conv 57
    %z = test_add(%y, %"odd/name \"q\"") : f32[bcast("2 rows", batch), 3]  from "" Add, "b" "my op" 2 in "other.onnx"
    %0 = test_same(%x, %"odd/name \"q\"") : f32[batch, 3]
    %a, %a_1 = test_split(%y, _, %x) {axis = 1} : f32[batch, 3], f32[batch, 3]
    %n = test_nonzero(%y) found count : i64[2, count]
    %d = dims() {values = dims(batch, 2*batch)} : i64[2]
    %r = test_reshape(%x, %d) : f32[batch, 2*batch]
    return %z as "output name", %n as "n", %a, %r as "x"
  }

  module @"unused body"() {
    return
  }
}
)";

TEST(Text, prints_what_it_parsed_for_every_kind_of_line) {
  EXPECT_EQ(print(*parse_program(kEverything)), kEverything);
}

TEST(Text, parses_symbols_and_modules) {
  const auto program = parse_program(kEverything);
  EXPECT_EQ(program->name, "model \"a\".onnx");
  EXPECT_EQ(program->metadata.at("producer"), "pytorch");
  const SymbolRef rows = program->find_symbol("2 rows");
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->range, (Range{1, kUnbounded}));
  EXPECT_EQ(rows->preferred, (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(program->find_symbol("signed")->range.min, -kUnbounded);
  EXPECT_EQ(program->main().guards().size(), 4u);
  EXPECT_EQ(program->main().result_names(), (Strings{"output name", "n", "", "x"}));
  const Instruction& add = *program->main().results()[0]->definition();
  ASSERT_EQ(add.origins().size(), 2u);
  EXPECT_EQ(add.origins()[0].file, program->name);
  EXPECT_EQ(add.origins()[1].op_type, "my op");
  EXPECT_EQ(add.origins()[1].file, "other.onnx");
}

TEST(Text, leaves_out_attributes_equal_to_their_defaults) {
  const std::string text =
      round_trip(in_main("%y = test_everything() {must = 1, integer = 3, text = \"as is\", "
                         "integers = [1, 2], flag = true}\nreturn %y"));
  EXPECT_TRUE(contains(text, "%y = test_everything() {must = 1} : f32[]\n"));
}

TEST(Text, round_trips_every_kind_of_attribute) {
  const std::string line =
      "%y = test_everything() {dims = dims(b, 2*b, 4), element = i4, flag = false, "
      "integer = -9223372036854775808, integers = [], must = 0, number = -inf, "
      "numbers = [0.1, 1e+300, -0.0, nan], text = \"q\\\"\\\\\\x00\", texts = [\"\", \"a, b\"], "
      "type = type(opt<seq<bf16[b]>>)} : f32[]";
  const std::string text = round_trip(in_main(line + "\nreturn %y", "", "symbol b bound 0..*"));
  EXPECT_TRUE(contains(text, line));
}

TEST(Text, parses_attributes_in_any_order_and_optional_types) {
  const std::string text = round_trip(
      in_main("// a comment\n%a, %b = test_split(%x) %c = test_add(%a,%b) return %c as \"c\""));
  EXPECT_TRUE(contains(text, "%a, %b = test_split(%x) : f32[2, 3], f32[2, 3]\n"));
  EXPECT_TRUE(contains(text, "%c = test_add(%a, %b) : f32[2, 3]\n"));
}

TEST(Text, keeps_names_with_exchanged_numbers) {
  const std::string body =
      "    %b_1, %b, %b_2 = test_split(%x) : f32[2, 3], f32[2, 3], f32[2, 3]\n"
      "    %1, %0 = test_split(%b) : f32[2, 3], f32[2, 3]\n    return";
  EXPECT_TRUE(contains(round_trip(in_main(body)), body));
}

TEST(Text, adds_guards_of_inference) {
  const std::string text =
      round_trip(in_main("%y = test_same(%x, %z) return %y", "%x: f32[j], %z: f32[k]",
                         "symbol j bound 0..* symbol k bound 0..*"));
  EXPECT_TRUE(contains(text, "require j == k: \"test_same: rows of a and b\"\n"));
}

TEST(Text, infers_bodies_with_captured_values) {
  const std::string body =
      "    %d = literal i64[2] {3, 2}\n"
      "    %r = if(%c, %x, %d) {then = @then, else = @else} : f32[3, 2]\n"
      "    return %r as \"r\"\n  }\n\n"
      "  module @then(%x: f32[2, 3], %shape: i64[2]) {\n"
      "    %y = test_reshape(%x, %shape) : f32[3, 2]\n    return %y\n  }\n\n"
      "  module @else(%x: f32[2, 3], %shape: i64[2]) {\n"
      "    %y = literal f32[3, 2] {0, 0, 0, 0, 0, 0}\n    return %y";
  EXPECT_TRUE(contains(round_trip(in_main(body, "%c: bool[], %x: f32[2, 3]")), body));
}

TEST(Text, round_trips_states_and_their_versions) {
  const std::string text = R"(program "m" stage canonical {
  symbol batch bound 1..*
  symbol past length 0..*
  state @"past/0" : f32[batch, 4, past, 8] append axis 2 input "past.0" output "present.0"
  state @ring : f16[past] window axis 0 window 64
  state @h : f32[4] carry

  module @main(%x: f32[batch, 4, 1, 8], %n: f32[4]) {
    %s = state_read() {state = "past/0"} : f32[batch, 4, past, 8]
    %t = state_append(%s, %x) {state = "past/0"} : f32[batch, 4, past + 1, 8]
    %h = state_read() {state = "h"} : f32[4]
    %g = state_replace(%h, %n) {state = "h"} : f32[4]
    return %t as "present.0"
  }
}
)";
  EXPECT_EQ(print(*parse_program(text)), text);
}

TEST(Text, round_trips_deferred_instructions_and_implemented_modules) {
  const std::string text = R"(program "m" stage lowered {

  module @main(%x: f32[2]) {
    %w = literal f32[2] {1, 2}
    %v = deferred test_add(%w, %w) : f32[2]
    %y = test_add(%x, %v) implements @meaning : f32[2]
    return %y as "y"
  }

  module @meaning(%a: f32[2], %b: f32[2]) {
    %y = test_composite(%a) : f32[2]
    return %y
  }
}
)";
  EXPECT_EQ(print(*parse_program(text)), text);
}

TEST(TextErrors, name_file_line_and_column_and_show_the_line_with_a_caret) {
  const Error error = error_of(in_main("    %y = test_ad(%x, %x) : f32[2, 3]\n    return %y"));
  EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
  EXPECT_EQ(error.message(), "t.lathe:4:10: unknown op 'test_ad' (did you mean 'test_add'?)");
  EXPECT_EQ(error.notes(), (Strings{"    %y = test_ad(%x, %x) : f32[2, 3]", "         ^"}));
}

TEST(TextErrors, point_at_the_dim_inside_a_type) {
  const Error error = error_of(in_main("return", "%x: f32[2, batch + ]"));
  EXPECT_TRUE(std::string_view(error.message()).starts_with("t.lathe:3:")) << error.message();
  EXPECT_TRUE(contains(error.message(), "batch"));
  ASSERT_EQ(error.notes().size(), 2u);
  EXPECT_EQ(error.notes()[0].substr(error.notes()[1].size() - 1, 5), "batch");
}

TEST(TextErrors, count_characters_and_not_bytes) {
  const Error error = error_of("program \"\xc3\xbc\xc3\xbc\" stag imported {");
  EXPECT_TRUE(std::string_view(error.message()).starts_with("t.lathe:1:14: ")) << error.message();
  EXPECT_EQ(error.notes()[1], "             ^");
}

TEST(TextErrors, show_a_window_of_a_long_line) {
  const std::string filler(500, ' ');
  const Error error = error_of("program \"t\" " + filler + "stag imported " + filler + "{");
  EXPECT_LT(error.notes()[0].size(), 130u);
  EXPECT_TRUE(contains(error.notes()[0], "stag"));
}

struct BadText {
  std::string text;
  std::string_view message;  // substring
};

class TextErrorOf : public testing::TestWithParam<BadText> {};

TEST_P(TextErrorOf, is_an_invalid_model_with_a_location) {
  const Error error = error_of(GetParam().text);
  EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
  EXPECT_TRUE(contains(error.what(), GetParam().message));
  EXPECT_TRUE(std::string_view(error.message()).starts_with("t.lathe:")) << error.message();
}

std::string with_main(std::string_view parameters, std::string_view body) {
  return fmt::format("program \"t\" stage imported {{ module @main({}) {{\n{}\n}} }}", parameters,
                     body);
}

INSTANTIATE_TEST_SUITE_P(
    Program, TextErrorOf,
    testing::Values(
        BadText{"", "expected 'program' at the beginning of a program, found the end of the file"},
        BadText{"program x", "expected the program's name in quotes, found 'x'"},
        BadText{"program \"t\" stage canonicl {", "unknown stage 'canonicl' (did you mean"},
        BadText{"program \"t\" stage imported {", "found the end of the file"},
        BadText{"program \"t\" stage imported { }", "has no module @main"},
        BadText{"program \"t\" stage imported { module @a() {} }",
                "@main must be the first module"},
        BadText{"program \"t\" stage imported { module @main() {", "is not closed"},
        BadText{"program \"t\" stage imported { modul @main() {} }", "did you mean 'module'?"},
        BadText{"program \"t\" stage imported { symbol a bound 3..1 ", "the range 3..1 is empty"},
        BadText{"program \"t\" stage imported { symbol a bound 0..1 symbol a bound 0..1",
                "symbol 'a' is declared twice"},
        BadText{"program \"t\" stage imported { state @s : f32[2] append", "needs an axis"},
        BadText{"program \"t\" stage imported { state @s : f32[*] carry", "of known rank"},
        BadText{"program \"t\" stage imported { state @s : f32[2] append axis 1", "out of range"},
        BadText{with_main("", "return \""), "is not closed on its line"},
        BadText{with_main("", "return \x01"), "unexpected character '\\x01'"},
        BadText{with_main("%x: f33[2]", "return"), "unknown element type 'f33' (did you mean"},
        BadText{with_main("%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "return"),
                "a type of rank 17"},
        BadText{with_main("%x: f32[99999999999999999999]", "return"), "more than 63 bits"},
        BadText{with_main("%x: f32[2], %x: f32[2]", "return"), "'%x' is defined twice"},
        BadText{with_main("%x: f32[n]", "return"), "unknown symbol 'n'"}));

INSTANTIATE_TEST_SUITE_P(
    Instruction, TextErrorOf,
    testing::Values(
        BadText{with_main("%input: f32[2]", "%y = test_add(%inptu, %input)"),
                "unknown value '%inptu' before this line (did you mean 'input'?)"},
        BadText{with_main("%x: f32[2]", "%y = test_split(%x) {axes = 1}"),
                "test_split has no attribute 'axes' (did you mean 'axis'?)"},
        BadText{with_main("%x: f32[2]", "%y = test_split(%x) {axis = 1.5}"), "expected an integer"},
        BadText{with_main("%x: f32[2]", "%y = test_split(%x) {axis = 1, axis = 2}"), "set twice"},
        BadText{with_main("%x: f32[2]", "%y = test_everything()"), "requires the attribute 'must'"},
        BadText{with_main("%x: f32[2]", "%y, %z = test_add(%x, %x)"), "1 results, got 2"},
        BadText{with_main("%x: f32[2]", "%y = test_add(%x, %x) : f32[3]"),
                "%y has inferred type f32[2], got f32[3]"},
        BadText{with_main("%x: f32[2], %w: f32[3]", "%y = test_add(%x, %w)"), "do not broadcast"},
        BadText{with_main("%x: f32[2]", "%y = if(%x) {then = @main, els = @b}"), "did you mean"},
        BadText{with_main("%c: bool[]", "%y = if(%c) {then = @mian, else = @mian}"),
                "unknown module 'mian' (did you mean 'main'?)"},
        BadText{with_main("%c: bool[]", "%y = if(%c) {then = @main, else = @main}"),
                "contains itself"},
        BadText{with_main("%c: bool[]", "%y = if(%c)"), "requires the body 'then'"},
        BadText{with_main("%x: f32[2]", "return %x as y"), "expected the result's name in quotes"},
        BadText{with_main("%x: f32[2]", "return %x %x = test_add(%x, %x)"), "expected '}' after"},
        BadText{with_main("", "%w = literal f32[999999999999] {1}"), "only"},
        BadText{with_main("", "%w = literal f32[4611686018427387904, 4] {1}"),
                "4611686018427387904"},
        BadText{with_main("", "%w = literal i8[2] {1, 128}"),
                "128 is out of range for i8 (-128 to 127)"},
        BadText{with_main("", "%w = literal u4[1] {-1}"), "'-1' is not a valid u4"},
        BadText{with_main("", "%w = literal f32[1] {nan(0x7f800000)}"), "not the bits of a NaN"},
        BadText{with_main("", "%w = literal f16[1] {nan(0x17e00)}"), "not the bits of a NaN"},
        BadText{with_main("", "%w = literal f16[1] {1e9}"), "1e9 is out of range for f16"},
        BadText{with_main("", "%w = literal f32[2] {1}"), "expected ',' between elements"},
        BadText{with_main("", "%w = literal f32[1] {1, 2}"), "expected '}' after the elements"},
        BadText{with_main("", "%w = literal f32[1] #12"), "16 hexadecimal digits"},
        BadText{with_main("", "require 1 > 2: \"\""), "follows a complete expression"},
        BadText{with_main("", "require 1 == 2 \"\""), "dim"}));

TEST(Text, limits_nested_types_and_bodies) {
  std::string type = "f32[]";
  for (int i = 0; i < 1000; ++i) type = "seq<" + type + ">";
  EXPECT_TRUE(contains(error_of(in_main("return", "%x: " + type)).message(), "nested types"));
  std::string text = in_main("%y = if(%c) {then = @m0, else = @none} return", "%c: bool[]");
  text.erase(text.rfind('}'));
  for (int i = 0; i < 200; ++i) {
    text += fmt::format("module @m{}(%c: bool[]) {{ %y = if(%c) {{then = @m{}, else = @none}} }}\n",
                        i, i + 1);
  }
  text += "module @m200() {} module @none() {} }";
  EXPECT_TRUE(contains(error_of(text).message(), "is nested too deeply"));
}

TEST(Text, is_recognised_by_its_first_word) {
  EXPECT_TRUE(looks_like_program(kEverything));
  EXPECT_TRUE(looks_like_program("// made by hand\n\n  program\"x\""));
  EXPECT_FALSE(looks_like_program("programme \"x\""));
  EXPECT_FALSE(looks_like_program("// program"));
  EXPECT_FALSE(looks_like_program(""));
  EXPECT_FALSE(looks_like_program(std::string_view("\x08\x07\x12\x07pytorch", 11)));
}

TEST(Text, parses_every_fuzz_seed) {
  int count = 0;
  for (const auto& seed : std::filesystem::directory_iterator("tests/fuzz/seeds/ir_text")) {
    if (seed.path().extension() == ".md") continue;
    const auto file = FileMap::open(seed.path().string());
    const auto program = parse_program(file->text(), {.file = seed.path().string()});
    const std::string text = print(*program);
    EXPECT_EQ(print(*parse_program(text, with_literals_of(*program))), text) << seed.path();
    ++count;
  }
  EXPECT_GE(count, 2);
}

TEST(Quote, round_trips_every_byte) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text{static_cast<char>(a), static_cast<char>(b)};
      const std::string quoted = quote(text);
      EXPECT_EQ(unquote(std::string_view(quoted).substr(1, quoted.size() - 2)), text) << a << b;
    }
  }
  EXPECT_EQ(unquote("a\\q"), std::nullopt);
  EXPECT_EQ(unquote("\\x1"), std::nullopt);
  EXPECT_EQ(unquote("\\xg1"), std::nullopt);
}

}  // namespace
}  // namespace lathe
