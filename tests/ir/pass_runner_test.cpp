// SPDX-License-Identifier: MIT
#include "ir/pass_runner.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file_map.h"
#include "ir/builder.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "tests/support/contains.h"

namespace lathe {
namespace {

using test::contains;
using Strings = std::vector<std::string>;

std::unique_ptr<Program> program() {
  return parse_program(R"(program "m" stage imported {
    symbol j bound 0..* symbol k bound 0..*
    module @main(%x: f32[j], %z: f32[k]) {
      %y = test_same(%x, %z)
      %t = test_add(%y, %y)
      return %t as "t"
    } })");
}

Pass pass(std::string_view name, std::function<bool(Program&)> run) {
  return {.name = name, .doc = "For this test.", .run = std::move(run)};
}

const auto kNothing = [](Program&) { return false; };

Error error_of(Program& program, const Pipeline& pipeline, const PassOptions& options = {}) {
  try {
    run_passes(program, pipeline, options);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorKind::internal, "none"};
}

TEST(PassRunner, runs_stages_in_order_and_cleans_up_after_changes) {
  Strings ran;
  const auto log = [&](std::string name, bool changes) {
    return [&ran, name, changes](Program&) {
      ran.push_back(name);
      return changes;
    };
  };
  const Pipeline pipeline{
      .stages = {{Stage::canonical, {pass("a", log("a", true)), pass("b", log("b", false))}},
                 {Stage::optimised, {pass("c", log("c", false))}},
                 {Stage::fused, {pass("d", log("d", false))}}},
      .cleanup = pass("clean", log("clean", true))};
  const auto subject = program();
  Strings trace;
  Strings seen;
  const auto records = run_passes(
      *subject, pipeline,
      {.stop_after = Stage::optimised,
       .trace = [&](const std::string& line) { trace.push_back(line); },
       .after_pass = [&](std::string_view name, const Program&) { seen.emplace_back(name); }});
  EXPECT_EQ(ran, (Strings{"a", "clean", "b", "c"}));
  EXPECT_EQ(seen, (Strings{"a", "b", "c"}));
  EXPECT_EQ(subject->stage, Stage::optimised);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_TRUE(records[0].changed);
  EXPECT_EQ(records[2].stage, Stage::optimised);
  ASSERT_EQ(trace.size(), 3u);
  EXPECT_TRUE(contains(trace[1], "canonical: b "));
  EXPECT_TRUE(contains(trace[1], " (unchanged)"));
  EXPECT_FALSE(contains(trace[0], "(unchanged)"));
  run_passes(*subject, pipeline);
  EXPECT_EQ(ran.back(), "d");
  EXPECT_EQ(ran.size(), 5u) << "completed stages ran again";
}

TEST(PassRunner, names_the_pass_that_fails_and_saves_the_program_before_it) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "lathe_pass_runner_test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "failing.txt").string();
  const auto subject = program();
  const std::string before = print(*subject);
  const Pipeline pipeline{.stages = {{Stage::canonical,
                                      {pass("break",
                                            [](Program& p) -> bool {
                                              p.main().guards().clear();
                                              throw std::runtime_error("no such luck");
                                            })}}},
                          .cleanup = pass("clean", kNothing)};
  const Error error = error_of(*subject, pipeline, {.save_failing = path});
  EXPECT_EQ(error.kind(), ErrorKind::internal);
  EXPECT_EQ(error.message(), "pass 'break': no such luck");
  ASSERT_EQ(error.notes().size(), 3u);
  EXPECT_EQ(error.notes()[0], "while running pass 'break'");
  EXPECT_TRUE(contains(error.notes()[2], path));
  const auto saved = FileMap::open(path);
  EXPECT_TRUE(looks_like_program(saved->text()));
  EXPECT_EQ(print(*parse_program(saved->text())), before);
  EXPECT_TRUE(contains(saved->text(), "// Before pass 'break'"));
  std::filesystem::remove_all(folder);
}

TEST(PassRunner, keeps_the_kind_of_an_error_and_adds_the_pass) {
  const Pipeline pipeline{.stages = {{Stage::canonical,
                                      {pass("refuse",
                                            [](Program& p) -> bool {
                                              fail(ErrorKind::unsupported, "'{}' is too new",
                                                   p.name);
                                            })}}},
                          .cleanup = pass("clean", kNothing)};
  const auto subject = program();
  const Error error = error_of(*subject, pipeline);
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_EQ(error.notes(), Strings{"while running pass 'refuse'"});
}

// A fault in a pass, and the message of the runner.
struct Fault {
  std::string_view name;
  bool (*plant)(Program& program);
  std::string_view message;
};

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, is_reported_with_the_pass) {
  const auto subject = parse_program(R"(program "m" stage imported {
    symbol j bound 0..* symbol k bound 0..* symbol past length 0..*
    state @s : f32[past] append axis 0
    module @main(%x: f32[j], %z: f32[k]) {
      %y = test_same(%x, %z)
      %v = state_read() {state = "s"}
      %w = state_append(%v, %y) {state = "s"}
      return %y as "y", %x as "x"
    } })",
                                     {.file = "m", .verify = false});
  const Pipeline pipeline{.stages = {{Stage::canonical, {pass("good", kNothing)}}},
                          .cleanup = pass("clean", kNothing)};
  const PassOptions options{
      .verify_each_pass = true, .substitute = [](const Pass& listed) -> std::optional<Pass> {
        return listed.name == "good" ? std::optional(pass("good", GetParam().plant)) : std::nullopt;
      }};
  const Error error = error_of(*subject, pipeline, options);
  EXPECT_EQ(error.kind(), ErrorKind::internal);
  EXPECT_TRUE(contains(error.what(), GetParam().message));
  EXPECT_TRUE(contains(error.what(), "while running pass 'good'"));
}

Instruction* first(Program& program) { return program.main().instructions().front().get(); }

INSTANTIATE_TEST_SUITE_P(Passes, PlantedFault,
                         testing::Values(Fault{"a requirement dropped",
                                               [](Program& p) {
                                                 p.main().guards().clear();
                                                 return true;
                                               },
                                               "lacks the condition"},
                                         Fault{"a requirement dropped with its instruction",
                                               [](Program& p) {
                                                 Instruction* same = first(p);
                                                 p.main().replace_uses(same->result(),
                                                                       same->operands()[0]);
                                                 p.main().erase(same);
                                                 p.main().guards().clear();
                                                 return true;
                                               },
                                               "pass 'good' lost: require j == k"},
                                         Fault{"a state update lost",
                                               [](Program& p) {
                                                 p.main().erase(
                                                     p.main().instructions().back().get());
                                                 return true;
                                               },
                                               "lost: 1 of 1 updates of state 's'"},
                                         Fault{"symbols swapped",
                                               [](Program& p) {
                                                 first(p)->result()->set_type(Type::tensor(
                                                     ElementType::f32, {p.find_symbol("k")}));
                                                 return true;
                                               },
                                               "'%y' is f32[k], inferred f32[j]"},
                                         Fault{"a result lost",
                                               [](Program& p) {
                                                 p.main().remove_result(1);
                                                 return true;
                                               },
                                               "changed the caller's interface"}),
                         [](const auto& fault) {
                           std::string name(fault.param.name);
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(PassRunner, always_verifies_stage_boundaries) {
  const Pipeline pipeline{
      .stages = {{Stage::canonical,
                  {pass("skew",
                        [](Program& p) {
                          first(p)->result()->set_type(Type::unranked(ElementType::f32));
                          return true;
                        })}}},
      .cleanup = pass("clean", kNothing)};
  const auto subject = program();
  const Error error = error_of(*subject, pipeline, {.verify_each_pass = false});
  EXPECT_TRUE(contains(error.message(), "program 'm' is invalid at stage canonical"));
}

TEST(PassRunner, prints_and_parses_after_each_pass_on_request) {
  // Between passes, constructs of the next stage are valid.
  const auto defer = [](Program& p) {
    Builder b(p.main());
    Value* one = b.scalar(ElementType::f32, 1);
    b("test_add", {one, one})->definition()->set_deferred(true);
    return true;
  };
  const Pipeline pipeline{
      .stages = {{Stage::canonical, {pass("defer", defer), pass("idle", kNothing)}}},
      .cleanup = pass("clean", kNothing)};
  const auto subject = program();
  Strings texts;
  run_passes(*subject, pipeline,
             {.round_trip = true, .after_pass = [&](std::string_view, const Program& p) {
                texts.push_back(print(p));
              }});
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_TRUE(contains(texts[0], "stage imported"));
  EXPECT_TRUE(contains(texts[0], "deferred test_add"));
  EXPECT_EQ(print(*parse_program(texts[0])), texts[0]) << "a saved program must parse";
}

TEST(PassRunner, stops_between_passes_when_interrupted) {
  int ran = 0;
  const auto count = [&](Program&) {
    ++ran;
    return false;
  };
  const Pipeline pipeline{.stages = {{Stage::canonical, {pass("a", count), pass("b", count)}}},
                          .cleanup = pass("clean", kNothing)};
  const auto subject = program();
  const Error error = error_of(*subject, pipeline, {.check_interrupt = [&] {
    if (ran == 1) fail(ErrorKind::interrupted, "{}", "stopped");
  }});
  EXPECT_EQ(error.kind(), ErrorKind::interrupted);
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace lathe
