// SPDX-License-Identifier: MIT
// Verification finds errors planted in passes and names the pass.
#include "runtime/verification.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/parse.h"
#include "passes/promote_state.h"
#include "tests/support/contains.h"
#include "tests/support/errors.h"

namespace lathe {
namespace {

Tensor floats(Dims dims, float first) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (float& value : tensor.elements<float>()) value = first += 0.25f;
  return tensor;
}

// Two symbols, a literal, shape arithmetic, a requirement.
constexpr std::string_view kPlain = R"(program "plain" stage imported {
  symbol m bound 1..*
  symbol k bound 1..*
  symbol n bound 1..*
  module @main(%x: f32[m, n], %v: f32[n, m], %z: f32[k]) {
    %a = literal f32[2] {3, 4}
    %b = literal f32[2] {0.5, 2}
    %c = mul(%a, %b)
    %s = shape(%x)
    %zero = literal i64[1] {0}
    %rows = gather(%s, %zero) {axis = 0}
    %one = literal i64[1] {1}
    %columns = gather(%s, %one) {axis = 0}
    %swapped = concat(%columns, %rows) {axis = 0}
    %r = reshape(%x, %swapped)
    %t = add(%r, %v)
    %sum = reduce_sum(%c, %zero) {keep_dims = true}
    %scaled = mul(%t, %sum)
    %y = add(%scaled, %z)
    return %y as "y"
  }
})";

constexpr std::string_view kStates = R"(program "states" stage imported {
  symbol past bound 0..*
  symbol s bound 1..*
  module @main(%past: f32[past, 2], %x: f32[s, 2]) {
    %present = concat(%past, %x) {axis = 0}
    %axis = literal i64[1] {0}
    %w = literal f32[2] {1, 10}
    %weighted = mul(%present, %w)
    %y = cumsum(%weighted, %zero) {exclusive = true}
    %zero = literal i64[] {0}
    return %present as "present", %y as "y"
  }
})";

std::unique_ptr<Program> plain() { return parse_program(kPlain); }

std::unique_ptr<Program> stateful() {
  std::string text(kStates);  // %zero before its use
  const std::string line = "    %zero = literal i64[] {0}\n";
  text.erase(text.find(line), line.size());
  text.insert(text.find("    %y ="), line);
  auto program = parse_program(text);
  const StatePair pair{"past", "present"};
  promote_state(*program, {&pair, 1});
  return program;
}

std::vector<VerificationCase> plain_cases() {
  return {
      {"m = n = 2", {{Box{floats({2, 2}, 1)}, Box{floats({2, 2}, -3)}, Box{floats({2}, 9)}}}},
      {"m = 2, n = 3", {{Box{floats({2, 3}, 2)}, Box{floats({3, 2}, 0)}, Box{floats({1}, 9)}}}}};
}

std::vector<VerificationCase> state_cases() {
  return {{"three steps",
           {{Box{floats({2, 2}, 1)}}, {Box{floats({1, 2}, 5)}}, {Box{floats({3, 2}, 7)}}}}};
}

// Verifies with a pass whose result is modified by `fault`.
VerificationReport verify_with(const Program& program, std::span<const VerificationCase> cases,
                               std::string_view pass_name,
                               const std::function<void(Program&)>& fault) {
  VerificationOptions options;
  bool planted = false;
  options.compile.passes.substitute = [&](const Pass& pass) -> std::optional<Pass> {
    if (pass.name != pass_name || planted) return std::nullopt;
    planted = true;
    Pass faulty = pass;
    faulty.run = [run = pass.run, fault](Program& changed) {
      run(changed);
      fault(changed);
      return true;
    };
    return faulty;
  };
  const VerificationReport report = verify_program(program, cases, options);
  EXPECT_TRUE(planted);
  return report;
}

Instruction* find_op(Program& program, std::string_view op) {
  for (const auto& instruction : program.main().instructions()) {
    if (instruction->op().name == op) return instruction.get();
  }
  ADD_FAILURE() << "no " << op;
  return nullptr;
}

// Adds one to each float literal, as after a wrong fold or with a stale literal.
void change_literals(Program& program) {
  for (const auto& instruction : program.main().instructions()) {
    if (instruction->literal() == nullptr) continue;
    const Tensor& tensor = instruction->literal()->tensor;
    if (tensor.type() != ElementType::f32) continue;
    auto changed = std::make_shared<Literal>();
    changed->tensor = tensor.clone();
    changed->tensor.as<float>()[0] += 1;
    instruction->set_literal(changed);
  }
}

void expect_blamed(const VerificationReport& report, std::string_view stage,
                   std::string_view pass) {
  EXPECT_FALSE(report.passed());
  ASSERT_FALSE(report.stages.empty());
  EXPECT_EQ(report.stages.back().name, stage);
  EXPECT_EQ(report.stages.back().bad_pass, pass);
  EXPECT_NE(report.stages.back().problem, "");
}

TEST(Verification, CorrectProgramsPassAtEveryStage) {
  for (const bool has_states : {false, true}) {
    const auto program = has_states ? stateful() : plain();
    const auto cases = has_states ? state_cases() : plain_cases();
    const VerificationReport report = verify_program(*program, cases, {});
    EXPECT_TRUE(report.passed());
    EXPECT_EQ(report.cases, static_cast<int64_t>(cases.size()));
    EXPECT_FALSE(report.quantises);
    ASSERT_EQ(report.stages.size(), 5u);
    EXPECT_EQ(report.stages.back().name, "ref, end to end");
    EXPECT_EQ(report.stages.back().values.size(), 1u);
    EXPECT_EQ(report.stages.back().values[0].error, 0);
  }
}

TEST(Verification, FindsAWrongFold) {
  expect_blamed(verify_with(*plain(), plain_cases(), "fold_constants", change_literals),
                "canonical", "fold_constants");
}

TEST(Verification, FindsAStaleLiteralLeftByALaterPass) {
  expect_blamed(verify_with(*plain(), plain_cases(), "lower_composites", change_literals),
                "lowered", "lower_composites");
}

TEST(Verification, FindsADroppedRequirement) {
  const auto report = verify_with(*plain(), plain_cases(), "simplify_algebra",
                                  [](Program& program) { program.main().guards().clear(); });
  expect_blamed(report, "optimised", "simplify_algebra");
  EXPECT_TRUE(test::contains(report.stages.back().problem, "require"))
      << report.stages.back().problem;
}

TEST(Verification, FindsASwappedSymbol) {
  const auto report = verify_with(*plain(), plain_cases(), "fold_constants", [](Program& program) {
    Instruction* dims = find_op(program, "reshape")->operands()[1]->definition();
    ASSERT_NE(dims, nullptr);
    const Dim n(program.find_symbol("n"));
    const Dim m(program.find_symbol("m"));
    dims->set_attribute("values", std::vector<Dim>{m, n});
    infer(program.main());
  });
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.stages.back().bad_pass, "fold_constants");
}

// Rotates the appended rows by one.
TEST(Verification, FindsAnAppendThatIsOffByOne) {
  const auto report =
      verify_with(*stateful(), state_cases(), "simplify_algebra", [](Program& program) {
        Instruction* append = find_op(program, "state_append");
        ASSERT_NE(append, nullptr);
        Builder b(program.main(), append);
        Value* x = append->operands()[1];
        Value* axis = b.integers({0});
        Value* end = b.integers({std::numeric_limits<int64_t>::max()});
        Value* rest = b("slice", {x, b.integers({1}), end, axis});
        Value* first = b("slice", {x, b.integers({0}), b.integers({1}), axis});
        Value* rolled = b("concat", {rest, first}, {{"axis", int64_t{0}}});
        append->set_operand(1, rolled);
      });
  expect_blamed(report, "optimised", "simplify_algebra");
}

// This run uses the appended rows, but the state does not keep them.
TEST(Verification, FindsALostStateUpdate) {
  const auto report =
      verify_with(*stateful(), state_cases(), "simplify_algebra", [](Program& program) {
        Instruction* append = find_op(program, "state_append");
        ASSERT_NE(append, nullptr);
        Builder b(program.main(), append);
        Value* joined = b("concat", append->operands(), {{"axis", int64_t{0}}});
        program.main().replace_uses(append->result(), joined);
        program.main().erase(append);
      });
  expect_blamed(report, "optimised", "simplify_algebra");
}

// A product of bytes.
constexpr std::string_view kQuantised = R"(program "quantised" stage imported {
  module @main(%x: f32[2, 4]) {
    %s = literal f32[] {0.5}
    %zx = literal u8[] {128}
    %z = literal u8[] {100}
    %wq = literal i8[4, 4] {1, 2, -3, 4, 5, -6, 7, 8, -9, 1, 2, 3, -4, 5, 6, -7}
    %ys = literal f32[] {2}
    %q = quantize_linear(%x, %s, %zx)
    %a = dequantize_linear(%q, %s, %zx)
    %w = dequantize_linear(%wq, %s)
    %c = matmul(%a, %w)
    %y = quantize_linear(%c, %ys, %z)
    %out = dequantize_linear(%y, %ys, %z)
    return %out as "out"
  }
})";

// Scales are powers of two: results are equal but for `steps`, added to the first zero point of an
// output.
VerificationReport verify_moved_by(uint8_t steps) {
  const std::vector<VerificationCase> cases = {{"ramp", {{Box{floats({2, 4}, 20)}}}}};
  return verify_with(*parse_program(kQuantised), cases, "raise_quantized",
                     [steps](Program& program) {
                       Instruction* product = find_op(program, "qlinear_matmul");
                       ASSERT_NE(product, nullptr);
                       Builder b(program.main(), product);
                       Tensor zero(ElementType::u8, {});
                       zero.as<uint8_t>()[0] = static_cast<uint8_t>(100 + steps);
                       product->set_operand(7, b.literal(std::move(zero)));
                     });
}

TEST(Verification, AllowsAFusedProductOneStep) {
  for (const uint8_t steps : {uint8_t{0}, uint8_t{1}}) {
    const VerificationReport report = verify_moved_by(steps);
    EXPECT_TRUE(report.quantises);
    EXPECT_EQ(report.stages.front().problem, "") << int{steps};
  }
  const VerificationReport report = verify_moved_by(2);
  EXPECT_FALSE(report.passed());
  ASSERT_EQ(report.stages.size(), 1u);
  EXPECT_EQ(report.stages[0].bad_pass, "raise_quantized");
  EXPECT_TRUE(test::contains(report.stages[0].problem, "'y'")) << report.stages[0].problem;
}

// A pass may remove roundings to f16 in front of a result of f32; a wrong result is further away.
// Weights of 16 bits round nothing.
TEST(Verification, AllowsRoundingsTo16BitsToBeRemoved) {
  const auto report_of = [](std::string_view last, double error) {
    const auto program = parse_program(fmt::format(R"(program "half" stage imported {{
  module @main(%x: f32[8]) {{
    %w = literal f16[8] {{1.5, 0.3, 0.7, 2, 1.1, 0.9, 1.7, 0.2}}
    %wide = cast(%w) {{to = f32}}
    %third = literal f32[] {{0.3333333}}
    %h = cast(%x) {{to = f16}}
    %m = mul(%h, %w)
    %e = exp(%m)
    %n = cast(%e) {{to = f32}}
    %p = mul(%x, %wide)
    %y = mul({}, %third)
    return %y as "y"
  }}
}})",
                                                   last));
    const std::vector<VerificationCase> cases = {{"ramp", {{Box{floats({8}, 1)}}}}};
    return verify_with(*program, cases, "simplify_algebra", [error](Program& changed) {
      for (const auto& instruction : changed.main().instructions()) {
        if (instruction->literal() == nullptr || instruction->result()->name() != "third") continue;
        auto other = std::make_shared<Literal>();
        other->tensor = Tensor(ElementType::f32, {});
        other->tensor.as<float>()[0] = static_cast<float>(0.3333333 * (1 + error));
        instruction->set_literal(other);
      }
    });
  };
  EXPECT_TRUE(report_of("%n", 0.005).passed());
  EXPECT_FALSE(report_of("%n", 0.05).passed());
  EXPECT_TRUE(report_of("%p", 0).passed());
  EXPECT_FALSE(report_of("%p", 0.005).passed());
}

// A sum of 4096 rounds to 2^-11, which is more than the usual part of what remains of it.
TEST(Verification, AllowsWhatRoundingLeavesOfCancelledSums) {
  const auto report_of = [](double error) {
    const auto program = parse_program(R"(program "cancels" stage imported {
  module @main(%x: f32[8], %c: f32[8]) {
    %sum = add(%x, %c)
    %y = sub(%sum, %c)
    %one = literal f32[] {1}
    %is_one = equal(%y, %one)
    %z = where(%is_one, %one, %y)
    return %z as "z"
  }
})");
    Tensor large(ElementType::f32, {8});
    for (float& value : large.elements<float>()) value = 4096;
    const std::vector<VerificationCase> cases = {{"ramp", {{Box{floats({8}, 0.1F)}, Box{large}}}}};
    return verify_with(*program, cases, "simplify_algebra", [error](Program& changed) {
      Instruction* sum = find_op(changed, "add");
      ASSERT_NE(sum, nullptr);
      Builder b(changed.main(), sum);
      Value* moved = b("add", {sum->operands()[0], b.scalar(ElementType::f32, error)});
      sum->set_operand(0, moved);
    });
  };
  EXPECT_TRUE(report_of(0x1p-11).passed());
  EXPECT_FALSE(report_of(0.05).passed());
}

// A factor of 1 + 2^-20 before the rounding moves two of four results by a step.
TEST(Verification, AllowsWhatOneRoundingSpreads) {
  const auto program = parse_program(R"(program "ties" stage imported {
  module @main(%x: f32[4]) {
    %s = literal f32[] {1}
    %z = literal u8[] {0}
    %q = quantize_linear(%x, %s, %z)
    %y = dequantize_linear(%q, %s, %z)
    return %y as "y"
  }
})");
  Tensor ties(ElementType::f32, {4});
  for (int i = 0; i < 4; ++i) ties.as<float>()[i] = static_cast<float>(i) + 0.5F;
  const std::vector<VerificationCase> cases = {{"ties", {{Box{ties}}}}};
  const VerificationReport report =
      verify_with(*program, cases, "raise_quantized", [](Program& planted) {
        Instruction* rounds = find_op(planted, "quantize_linear");
        ASSERT_NE(rounds, nullptr);
        Builder b(planted.main(), rounds);
        Value* factor = b.scalar(ElementType::f32, 1 + 0x1p-20);
        rounds->set_operand(0, b("mul", {rounds->operands()[0], factor}));
      });
  EXPECT_TRUE(report.quantises);
  EXPECT_EQ(report.stages.front().problem, "");
}

TEST(Verification, JudgesDistributionsByTheGivenLimits) {
  Tensor expected(ElementType::f32, {4}), actual(ElementType::f32, {4});
  for (int i = 0; i < 4; ++i) {
    expected.as<float>()[i] = static_cast<float>(i);
    actual.as<float>()[i] = static_cast<float>(i) * 1.3F;
  }
  EXPECT_NE(judge_value("y", Box{actual}, Box{expected}, {.relative = 1e-3}, true).problem, "");
  EXPECT_EQ(judge_value("y", Box{actual}, Box{expected}, {.relative = 1e-3}, true, {.noise = 0.4})
                .problem,
            "");
}

TEST(Verification, SkipsCasesThatTheProgramRefuses) {
  std::vector<VerificationCase> cases = plain_cases();
  cases.push_back(
      {"unequal", {{Box{floats({2, 3}, 2)}, Box{floats({3, 2}, 0)}, Box{floats({3}, 0)}}}});
  const VerificationReport report = verify_program(*plain(), cases, {});
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.cases, 2);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_TRUE(report.skipped[0].starts_with("unequal: ")) << report.skipped[0];
  EXPECT_TRUE(error_of([&] {
                verify_program(*plain(), {&cases.back(), 1}, {});
              }).starts_with("InvalidArgument: "));
}

class VerificationOnDevice : public testing::TestWithParam<const char*> {};

TEST_P(VerificationOnDevice, ComparesEachKernel) {
  for (const bool has_states : {false, true}) {
    VerificationOptions options;
    options.compile.target = find_target(GetParam());
    const auto program = has_states ? stateful() : plain();
    const auto cases = has_states ? state_cases() : plain_cases();
    const VerificationReport report = verify_program(*program, cases, options);
    for (const StageReport& stage : report.stages) EXPECT_EQ(stage.problem, "") << stage.name;
    EXPECT_TRUE(report.passed());
    EXPECT_EQ(report.stages.back().name, fmt::format("{}, end to end", GetParam()));
    const auto kernels = std::ranges::find(
        report.stages, fmt::format("{}, each kernel", GetParam()), &StageReport::name);
    ASSERT_NE(kernels, report.stages.end());
    EXPECT_FALSE(kernels->values.empty());
  }
}

// Adds one to the first element of each result of add.
class WrongAdd final : public Kernel {
 public:
  explicit WrongAdd(std::unique_ptr<const Kernel> kernel) : kernel_(std::move(kernel)) {}
  std::string_view name() const override { return "sim.wrong"; }
  void launch(const LaunchArgs& args) const override {
    kernel_->launch(args);
    args.stream->fill(args.out[0]->data, std::byte{64}, sizeof(float));
  }

 private:
  std::unique_ptr<const Kernel> kernel_;
};

TEST(Verification, FindsAWrongKernelOfADevice) {
  VerificationOptions options;
  options.compile.target = find_target("sim");
  options.compile.watch_kernels = [](const Instruction& instruction, KernelChoice choice) {
    if (instruction.op().name == "add")
      choice.kernel = std::make_unique<WrongAdd>(std::move(choice.kernel));
    return choice;
  };
  const VerificationReport report = verify_program(*plain(), plain_cases(), options);
  const auto kernels = std::ranges::find(report.stages, "sim, each kernel", &StageReport::name);
  ASSERT_NE(kernels, report.stages.end());
  EXPECT_NE(kernels->problem.find("sim.wrong"), std::string::npos) << kernels->problem;
}

// Adds to the first element of a result.
class MovedKernel final : public Kernel {
 public:
  MovedKernel(std::unique_ptr<const Kernel> kernel, float distance)
      : kernel_(std::move(kernel)), distance_(distance) {}
  std::string_view name() const override { return "cpu.moved"; }
  bool uses_workspace() const override { return kernel_->uses_workspace(); }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    return kernel_->workspace_bytes(most);
  }
  void launch(const LaunchArgs& args) const override {
    kernel_->launch(args);
    *static_cast<float*>(args.out[0]->data) += distance_;
  }

 private:
  std::unique_ptr<const Kernel> kernel_;
  float distance_;
};

// Products of 4096 cancel: rounding alone moves what remains, 0.5.
TEST(Verification, AllowsAKernelWhatRoundingLeavesOfCancelledSums) {
  const auto problem_of = [](float distance) {
    VerificationOptions options;
    options.compile.target = find_target("cpu");
    options.compile.watch_kernels = [distance](const Instruction& instruction,
                                               KernelChoice choice) {
      if (instruction.op().name == "matmul")
        choice.kernel = std::make_unique<MovedKernel>(std::move(choice.kernel), distance);
      return choice;
    };
    const auto program = parse_program(R"(program "cancels" stage imported {
  module @main(%x: f32[8, 2]) {
    %w = literal f32[2, 1] {1, -1}
    %y = matmul(%x, %w)
    return %y as "y"
  }
})");
    Tensor x(ElementType::f32, {8, 2});
    for (int i = 0; i < 16; ++i) x.as<float>()[i] = i % 2 == 0 ? 4096.5F : 4096;
    const std::vector<VerificationCase> cases = {{"differences", {{Box{x}}}}};
    const VerificationReport report = verify_program(*program, cases, options);
    const auto kernels = std::ranges::find(report.stages, "cpu, each kernel", &StageReport::name);
    EXPECT_NE(kernels, report.stages.end());
    EXPECT_EQ(report.passed(), kernels->passed());
    return kernels->problem;
  };
  EXPECT_EQ(problem_of(0x1p-11F), "");
  EXPECT_TRUE(test::contains(problem_of(0.25F), "cpu.moved")) << problem_of(0.25F);
}

INSTANTIATE_TEST_SUITE_P(Targets, VerificationOnDevice, testing::Values("sim", "sim:mixed"));

}  // namespace
}  // namespace lathe
