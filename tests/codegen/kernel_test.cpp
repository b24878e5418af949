// SPDX-License-Identifier: MIT
#include "codegen/kernel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "ops/interpret.h"
#include "tensor/convert.h"
#include "tests/codegen/kernel_case.h"
#include "tests/codegen/random_formula.h"
#include "tests/kernels/support/cases.h"

namespace lathe::codegen {
namespace {

using test::Case;
using test::host_isas;
using test::Operand;
using test::RandomFormula;
using test::register_type;
using test::same;

// Runs `formula` over all operands but the last, which receives its result. `expected_formula` is
// that formula for the referee.
void compare(const Expr& formula, const Expr& expected_formula,
             const std::vector<KernelOperand>& forms, int64_t rows, int64_t columns,
             std::mt19937& random, Isa isa) {
  KernelDescription kernel{.operands = forms};
  std::vector<NodeId> loads;
  for (size_t i = 0; i + 1 < forms.size(); ++i) {
    loads.push_back(kernel.form.load(static_cast<int>(i), register_type(forms[i].type)));
  }
  kernel.phases.push_back(
      {{{kernel.form.append(formula, loads), static_cast<int>(forms.size()) - 1, formula.type()}}});
  ASSERT_EQ(why_not_generated(kernel, isa), "") << to_string(formula);
  const auto code = generate(kernel, isa);
  ASSERT_NE(code, nullptr);
  const Case data(forms, rows, columns, random);
  const Operand& result = data.operands.back();
  const size_t row_bytes = static_cast<size_t>(columns) * result.bytes();
  std::vector<std::vector<std::byte>> expected;
  const CompiledExpr referee(expected_formula);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<ElementOperand> in;
    for (size_t i = 0; i + 1 < forms.size(); ++i) {
      in.push_back({data.operands[i].at(row, 0), forms[i].type, forms[i].one_per_row ? 0 : 1});
    }
    expected.emplace_back(row_bytes + 64);
    referee.run(in, expected.back().data(), result.form.type, columns);
  }
  KernelCall call = data.call();
  code->run(call);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const std::byte* got = result.at(row, column);
      const std::byte* want =
          expected[static_cast<size_t>(row)].data() + static_cast<size_t>(column) * result.bytes();
      ASSERT_TRUE(same(result.form.type, got, want))
          << to_string(formula) << "\nrow " << row << " of " << rows << ", column " << column
          << " of " << columns << ": " << load_double(result.form.type, got, 0) << ", expected "
          << load_double(result.form.type, want, 0);
    }
  }
}

TEST(GeneratedKernel, HasTheBitsOfTheInterpreterOnRandomDescriptions) {
  const std::vector<Isa> isas = host_isas();
  if (isas.empty()) GTEST_SKIP() << "this processor has no machine";
  for (int64_t seed = 0; seed < cpu::test::cases(500); ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Isa isa = isas[static_cast<size_t>(seed) % isas.size()];
    std::vector<KernelOperand> forms;
    std::vector<Expr> leaves, expected_leaves;
    const std::vector<ElementType> types = operand_types(isa);
    const size_t inputs = 1 + random() % (seed % 10 == 0 ? 14 : 4);
    for (size_t i = 0; i < inputs; ++i) {
      const ElementType type =
          random() % 3 == 0 ? types[random() % types.size()] : ElementType::f32;
      forms.push_back({type, random() % 3 == 0});
      const auto index = static_cast<int>(i);
      leaves.push_back(Expr::argument(index, register_type(type)));
      // The referee's integers are wide.
      const Expr wide = Expr::argument(index, compute_type(type));
      expected_leaves.push_back(is_integer(type) ? convert(wide, ExprType::i32) : wide);
    }
    const ElementType result = types[random() % types.size()];
    const int steps = 1 + static_cast<int>(random() % (seed % 7 == 0 ? 120 : 15));
    std::mt19937 again = random;
    const Expr formula = RandomFormula(random, leaves).make(steps, register_type(result));
    const Expr expected = RandomFormula(again, expected_leaves).make(steps, register_type(result));
    forms.push_back({result, false});
    compare(formula, is_integer(result) ? convert(expected, compute_type(result)) : expected, forms,
            1 + static_cast<int64_t>(random() % 4), 1 + static_cast<int64_t>(random() % 130),
            random, isa);
    if (HasFatalFailure()) FAIL() << "case " << seed << ", " << to_string(isa);
  }
}

TEST(GeneratedKernel, HasTheBitsOfEveryFormulaOfActivations) {
  std::mt19937 random(1);
  const Expr x = Expr::argument(0, ExprType::f32);
  const std::vector<Expr> formulas{exp(x),
                                   expm1(x),
                                   log(x),
                                   log1p(x),
                                   tanh(x),
                                   sinh(x),
                                   cosh(x),
                                   erf(x),
                                   sigmoid(x),
                                   softplus(x),
                                   rsqrt(x),
                                   atan(x),
                                   pow(x, Expr::constant(ExprType::f32, 1.5)),
                                   x * sigmoid(x),
                                   x * tanh(softplus(x)),
                                   x * 0.5 * (erf(x * 0.70710678) + 1)};
  for (const Isa isa : host_isas()) {
    for (const Expr& formula : formulas) {
      compare(formula, formula, {{}, {}}, 3, 5000, random, isa);
    }
  }
}

TEST(GeneratedKernel, LeavesRowsAloneThatItIsNotCalledFor) {
  std::mt19937 random(1);
  for (const Isa isa : host_isas()) {
    KernelDescription kernel{.operands = {{}, {}}};
    const std::array load{kernel.form.load(0, ExprType::f32)};
    kernel.phases.push_back({{{kernel.form.append(-Expr::argument(0, ExprType::f32), load), 1}}});
    const Case data({{}, {}}, 2, 40, random);
    const float before = *reinterpret_cast<const float*>(data.operands[1].at(0, 0));
    KernelCall call = data.call();
    call.rows = 0;
    generate(kernel, isa)->run(call);
    EXPECT_EQ(std::bit_cast<uint32_t>(before),
              *reinterpret_cast<const uint32_t*>(data.operands[1].at(0, 0)));
  }
}

TEST(GeneratedKernel, IsAbsentWhereTheSystemRefusesExecutableMemory) {
  if (host_isas().empty()) GTEST_SKIP() << "this processor has no machine";
  KernelDescription kernel{.operands = {{}, {}}};
  kernel.phases.push_back({{{kernel.form.load(0, ExprType::f32), 1}}});
  refuse_code_memory(true);
  EXPECT_EQ(code_memory_method(), "");
  EXPECT_EQ(generate(kernel, host_isas().front()), nullptr);
  EXPECT_EQ(generation_status(),
            "none, the system refuses executable memory: the interpreter runs");
  refuse_code_memory(false);
  EXPECT_NE(generate(kernel, host_isas().front()), nullptr);
  EXPECT_NE(generation_status().find(", in memory of "), std::string::npos);
}

// All roots are alive when the last has been computed.
TEST(GeneratedKernel, IsAbsentWhereTheFrameDoesNotHoldItsValues) {
  const Expr x = Expr::argument(0, ExprType::f32);
  const auto formula = [&](int values) {
    std::vector<Expr> roots{x};
    for (int i = 1; i < values; ++i) roots.push_back(sqrt(roots.back() + i));
    Expr y = roots.back();
    for (size_t i = roots.size(); i-- > 0;) y = y * 0.5 + roots[i];
    return y;
  };
  std::mt19937 random(1);
  for (const Isa isa : host_isas()) {
    compare(formula(100), formula(100), {{}, {}}, 2, 70, random, isa);
    KernelDescription kernel{.operands = {{}, {}}};
    const std::array load{kernel.form.load(0, ExprType::f32)};
    kernel.phases.push_back({{{kernel.form.append(formula(200), load), 1}}});
    EXPECT_EQ(generate(kernel, isa), nullptr);
  }
}

TEST(GeneratedKernel, RefusesWhatItHasNoCodeFor) {
  if (host_isas().empty()) GTEST_SKIP() << "this processor has no machine";
  KernelDescription kernel{.operands = {{ElementType::c64}, {}}};
  kernel.phases.push_back({{{kernel.form.load(0, ExprType::f32), 1}}});
  EXPECT_EQ(why_not_generated(kernel, host_isas().front()), "an operand is c64");
}

}  // namespace
}  // namespace lathe::codegen
