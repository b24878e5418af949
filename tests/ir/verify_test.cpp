// SPDX-License-Identifier: MIT
#include "ir/verify.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "tests/support/contains.h"

namespace lathe {
namespace {

using test::contains;

constexpr std::string_view kSound = R"(program "m" stage canonical {
  symbol count found 0..100
  symbol j bound 0..*
  symbol k bound 0..*
  symbol past length 0..*
  state @s : f32[past] append axis 0

  module @main(%c: bool[], %x: f32[j], %z: f32[k], %i: i64[2]) {
    require j == k: "test_same: rows of a and b"
    %w = literal f32[1] {1}
    %y = test_same(%x, %z) : f32[j]
    %sum = test_add(%y, %w) : f32[j]
    %n = test_nonzero(%x) found count : i64[1, count]
    %m = test_add(%n, %n) : i64[1, count]
    %r = if(%c, %i) {then = @then, else = @else} : i64[2]
    %v0 = state_read() {state = "s"} : f32[past]
    %use = test_add(%v0, %w) : f32[past]
    %v1 = state_append(%v0, %x) {state = "s"} : f32[past + j]
    %v2 = state_append(%v1, %z) {state = "s"} : f32[past + j + k]
    return %sum as "sum", %m as "m", %r as "r", %v2 as "v2"
  }

  module @then(%a: i64[2]) {
    return %a
  }

  module @else(%a: i64[2]) {
    %b = test_add(%a, %a) : i64[2]
    return %b
  }
}
)";

class Verify : public testing::Test {
 protected:
  void SetUp() override {
    program_ = parse_program(kSound, {.file = "m"});
    ASSERT_TRUE(find_problems(*program_).empty());
  }

  Module& main() { return program_->main(); }
  Value* value(std::string_view name, std::string_view module = "main") {
    for (const auto& parameter : program_->find_module(module)->parameters()) {
      if (parameter->name() == name) return parameter.get();
    }
    for (const auto& instruction : program_->find_module(module)->instructions()) {
      for (const Value& result : instruction->results()) {
        if (result.name() == name) return instruction->result(result.index());
      }
    }
    return nullptr;
  }
  Instruction* instruction(std::string_view name, std::string_view module = "main") {
    return value(name, module)->definition();
  }
  // All problems, one per line.
  std::string problems() { return fmt::format("{}", fmt::join(find_problems(*program_), "\n")); }

  std::unique_ptr<Program> program_;
};

TEST_F(Verify, names_instruction_and_both_types) {
  value("sum")->set_type(Type::tensor(ElementType::f32, {4}));
  EXPECT_TRUE(contains(problems(),
                       "'%sum' is f32[4], inferred f32[j]: %sum = test_add(%y, %w) : f32[4] "
                       "in @main"));
}

TEST_F(Verify, throws_an_internal_error) {
  value("sum")->set_type(Type::tensor(ElementType::f32, {4}));
  try {
    verify(*program_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    EXPECT_TRUE(contains(error.message(), "program 'm' is invalid at stage canonical: '%sum'"));
  }
}

TEST_F(Verify, reports_a_dropped_requirement) {
  main().guards().clear();
  EXPECT_TRUE(contains(problems(),
                       "@main lacks the condition \"require j == k: \"test_same: rows "
                       "of a and b\"\" of %y = test_same(%x, %z)"));
}

TEST_F(Verify, compares_symbolic_values) {
  value("i")->set_elements(std::vector<Dim>{1, 2});
  EXPECT_TRUE(contains(problems(),
                       "parameter '%a' of @then has elements unknown, the captured operand "
                       "[1, 2]"));
}

TEST_F(Verify, compares_captures_with_their_parameters) {
  value("a", "then")->set_type(Type::tensor(ElementType::i64, {3}));
  EXPECT_TRUE(contains(problems(),
                       "parameter '%a' of @then is i64[3], the captured operand "
                       "i64[2]"));
}

TEST_F(Verify, requires_definitions_before_uses) {
  main().move(instruction("y"), nullptr);
  EXPECT_TRUE(contains(problems(), "operand '%y' of a test_add in @main is defined after it"));
}

TEST_F(Verify, requires_operands_of_the_same_module) {
  instruction("b", "else")->set_operand(0, value("i"));
  EXPECT_TRUE(contains(problems(), "operand '%i' of a test_add in @else belongs to @main"));
}

TEST_F(Verify, reports_erased_operands) {
  Program other;
  Value* stranger = other.main().add_parameter(value("i")->type(), "gone");
  instruction("b", "else")->set_operand(0, stranger);
  EXPECT_TRUE(
      contains(problems(), "operand 0 of a test_add in @else is not a value of the program"));
}

TEST_F(Verify, compares_use_lists_with_operands) {
  const_cast<std::vector<Use>&>(value("y")->uses()).clear();
  EXPECT_TRUE(contains(problems(), "'%y' lists 0 uses, but 1 operands and results use it"));
}

TEST_F(Verify, requires_one_owner_for_each_body) {
  instruction("r")->set_body(1, program_->find_module("then"));
  EXPECT_TRUE(contains(problems(), "@then is the body of 2 instructions"));
}

TEST_F(Verify, rejects_recursive_bodies) {
  Module& then = *program_->find_module("then");
  Instruction* owner = instruction("r");
  const Op& op = owner->op();
  Value* a = value("a", "then");
  owner->set_body(0, &program_->add_module("other"));
  then.insert(op, {a, a}, {}, {&then, &program_->add_module("another")}, 1);
  EXPECT_TRUE(contains(problems(), "@then contains itself"));
}

TEST_F(Verify, requires_bodies_of_this_program) {
  Program other;
  instruction("r")->set_body(0, &other.main());
  EXPECT_TRUE(contains(problems(), "has a body that is not a module of the program"));
}

TEST_F(Verify, requires_declared_symbols) {
  program_->remove_symbol("k");
  EXPECT_TRUE(contains(problems(), "symbol 'k' is not declared: parameter '%z' of @main"));
}

TEST_F(Verify, requires_data_dependent_symbols_before_their_use) {
  instruction("n")->clear_found();
  const std::string text = problems();
  EXPECT_TRUE(contains(text, "inference defines 1 symbols, the instruction 0"));
  EXPECT_TRUE(contains(text, "symbol 'count' is used before an instruction defines it"));
  EXPECT_EQ(program_->find_symbol("count_1"), nullptr) << "verification must not add a symbol";
}

TEST_F(Verify, requires_one_definition_of_data_dependent_symbols) {
  Builder builder(main());
  Instruction* again = main().insert(instruction("n")->op(), {value("x")}, {}, {}, 1);
  again->add_found(program_->find_symbol("count"));
  infer(*again);
  EXPECT_TRUE(contains(problems(), "symbol 'count' is defined a second time by"));
}

TEST_F(Verify, reports_swapped_symbols) {
  value("m")->set_type(Type::tensor(ElementType::i64, {1, program_->find_symbol("j")}));
  EXPECT_TRUE(contains(problems(), "'%m' is i64[1, j], inferred i64[1, count]"));
}

TEST_F(Verify, requires_one_chain_of_versions_for_each_state) {
  instruction("v2")->set_operand(0, value("v0"));
  infer(*instruction("v2"));
  EXPECT_TRUE(contains(problems(), "two instructions update '%v0'"));
}

TEST_F(Verify, requires_uses_of_a_version_before_its_update) {
  main().move(instruction("use"), nullptr);
  EXPECT_TRUE(contains(problems(),
                       "'%v0' is used by %use = test_add(%v0, %w) : f32[past] in @main "
                       "after the update %v1 ="));
}

TEST_F(Verify, requires_results_to_be_the_last_version) {
  main().set_result(3, value("v1"));
  EXPECT_TRUE(contains(problems(), "'%v1' is used as a result after the update %v2 ="));
}

TEST_F(Verify, requires_updates_of_versions_of_that_state) {
  Instruction* update = instruction("v1");
  update->set_operand(0, value("x"));
  infer(*update);
  EXPECT_TRUE(contains(problems(), "'%x' is not a version of the state 's'"));
}

TEST_F(Verify, requires_each_state_to_be_read_once) {
  Builder builder(main());
  builder("state_read", {}, {{"state", std::string("s")}});
  EXPECT_TRUE(contains(problems(), "state 's' is read a second time by"));
}

TEST_F(Verify, allows_only_constants_below_deferred_instructions) {
  Builder builder(main());
  Value* w = value("w");
  builder("test_add", {w, w})->definition()->set_deferred(true);
  EXPECT_EQ(problems(), "");
  instruction("sum")->set_deferred(true);
  EXPECT_TRUE(contains(problems(), "operand '%y' of a deferred instruction is neither"));
}

TEST_F(Verify, checks_attributes_against_the_record) {
  instruction("sum")->set_attribute("axis", int64_t{1});
  instruction("v0")->set_attribute("state", int64_t{1});
  const std::string text = problems();
  EXPECT_TRUE(contains(text, "the op has no attribute 'axis'"));
  EXPECT_TRUE(contains(text, "attribute 'state' is an integer, expected a string"));
}

TEST_F(Verify, enforces_the_specification_of_the_stage) {
  Value* w = value("w");
  Builder(main())("test_add", {w, w})->definition()->set_deferred(true);
  program_->stage = Stage::imported;
  EXPECT_TRUE(contains(problems(), "a deferred instruction may not appear at stage imported"));
  EXPECT_TRUE(find_problems(*program_, {.stage_spec = false}).empty());
  EXPECT_TRUE(find_problems(*program_, {.under_way = true}).empty()) << "canonical admits it";
  program_->stage = Stage::lowered;
  Builder builder(main());
  builder("test_composite", {value("x")});
  EXPECT_EQ(problems(), "") << "a target may have a kernel for a composite";
}

TEST(VerifyText, makes_an_invalid_program_text_an_invalid_model) {
  std::string text(kSound);
  text.replace(text.find("then = @then, else = @else"), 26, "then = @then, else = @then");
  try {
    parse_program(text, {.file = "m.lathe"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
    EXPECT_EQ(error.message(), "m.lathe: @then is the body of 2 instructions");
  }
}

}  // namespace
}  // namespace lathe
