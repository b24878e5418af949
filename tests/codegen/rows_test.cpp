// SPDX-License-Identifier: MIT
// Kernels of several phases against the same formulas by `CompiledExpr`, with partial results
// summed here.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "codegen/kernel.h"
#include "ops/interpret.h"
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

float combine(ExprOp op, float a, float b) {
  if (op == ExprOp::add) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
  return a < b ? b : a;
}

float reduce(ExprOp op, const std::vector<float>& values) {
  constexpr size_t kCount = kPartialResults;
  std::array<float, kCount> partial;
  partial.fill(op == ExprOp::add ? 0 : -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < values.size(); ++i) {
    partial[i % kCount] = combine(op, partial[i % kCount], values[i]);
  }
  for (size_t half = kCount / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) partial[i] = combine(op, partial[i], partial[i + half]);
  }
  return partial[0];
}

// Two phases that reduce, the second of which stores a row too, and one that stores the result.
// Operands: inputs, the stored row, the result.
struct Formulas {
  Expr first, second, stored, result;
  ExprOp first_op, second_op;
};

class Rows {
 public:
  Rows(std::vector<KernelOperand> forms, Formulas formulas, Formulas expected)
      : forms_(std::move(forms)),
        row_(forms_.size() - 2),
        formulas_(std::move(formulas)),
        expected_(std::move(expected)) {}

  KernelDescription description() const {
    KernelDescription kernel{.operands = forms_};
    std::vector<NodeId> leaves;
    for (size_t i = 0; i <= row_; ++i) {
      leaves.push_back(kernel.form.load(static_cast<int>(i), register_type(forms_[i].type)));
    }
    leaves.push_back(kernel.form.scalar(0, ExprType::f32));
    leaves.push_back(kernel.form.scalar(1, ExprType::f32));
    const auto node = [&](const Expr& formula) { return kernel.form.append(formula, leaves); };
    const int row = static_cast<int>(row_);
    kernel.phases = {
        {{}, {{formulas_.first_op, node(formulas_.first), 0}}},
        {{{node(formulas_.stored), row}}, {{formulas_.second_op, node(formulas_.second), 1}}},
        {{{node(formulas_.result), row + 1, formulas_.result.type()}}, {}}};
    return kernel;
  }

  // One row of the result by the interpreter.
  std::vector<std::byte> row(const Case& data, int64_t row, int64_t columns) const {
    std::vector<ElementOperand> in;
    for (size_t i = 0; i < row_; ++i) {
      in.push_back({data.operands[i].at(row, 0), forms_[i].type, forms_[i].one_per_row ? 0 : 1});
    }
    std::vector<float> stored(static_cast<size_t>(columns)), values = stored;
    std::array<float, 2> scalars{};
    in.push_back({stored.data(), ElementType::f32, 1});
    in.push_back({scalars.data(), ElementType::f32, 0});
    in.push_back({&scalars[1], ElementType::f32, 0});
    const auto run = [&](const Expr& formula, void* to, ElementType type) {
      CompiledExpr(formula).run(in, to, type, columns);
    };
    run(expected_.first, values.data(), ElementType::f32);
    scalars[0] = reduce(expected_.first_op, values);
    run(expected_.second, values.data(), ElementType::f32);
    run(expected_.stored, stored.data(), ElementType::f32);
    scalars[1] = reduce(expected_.second_op, values);
    const ElementType type = forms_.back().type;
    std::vector<std::byte> out(static_cast<size_t>(columns * info(type).bits / 8));
    run(expected_.result, out.data(), type);
    return out;
  }

  void compare(int64_t rows, int64_t columns, std::mt19937& random, Isa isa) const {
    const KernelDescription kernel = description();
    ASSERT_EQ(why_not_generated(kernel, isa), "");
    const auto code = generate(kernel, isa);
    ASSERT_NE(code, nullptr);
    const Case data(forms_, rows, columns, random);
    std::vector<std::vector<std::byte>> expected;
    for (int64_t i = 0; i < rows; ++i) expected.push_back(row(data, i, columns));
    KernelCall call = data.call();
    std::vector<float> scalars(static_cast<size_t>(rows * kMaxScalars));
    call.scalars = scalars.data();
    code->run(call);
    const Operand& result = data.operands.back();
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t column = 0; column < columns; ++column) {
        const auto at = static_cast<size_t>(column) * result.bytes();
        ASSERT_TRUE(same(result.form.type, result.at(i, column),
                         expected[static_cast<size_t>(i)].data() + at))
            << "row " << i << " of " << rows << ", column " << column << " of " << columns << "\n"
            << to_string(formulas_.first) << "\n"
            << to_string(formulas_.second) << "\n"
            << to_string(formulas_.result);
      }
    }
  }

 private:
  std::vector<KernelOperand> forms_;
  size_t row_;
  Formulas formulas_, expected_;
};

// Random formulas; the interpreter's integers are wide.
Formulas random_formulas(std::mt19937& random, const std::vector<KernelOperand>& forms, bool wide) {
  std::vector<Expr> leaves;
  const size_t row = forms.size() - 2;
  for (size_t i = 0; i < row; ++i) {
    const auto index = static_cast<int>(i);
    const ElementType type = forms[i].type;
    const Expr x = Expr::argument(index, wide ? compute_type(type) : register_type(type));
    leaves.push_back(wide && is_integer(type) ? convert(x, ExprType::i32) : x);
  }
  const auto argument = [&](size_t extra) {
    return Expr::argument(static_cast<int>(row + extra), ExprType::f32);
  };
  const auto make = [&](int steps, ExprType type) {
    return RandomFormula(random, leaves).make(steps, type);
  };
  const auto steps = [&] { return 1 + static_cast<int>(random() % 12); };
  const auto op = [&] { return random() % 2 == 0 ? ExprOp::add : ExprOp::max; };
  Formulas out{argument(0), argument(0), argument(0), argument(0), op(), op()};
  out.first = make(steps(), ExprType::f32);
  leaves.push_back(argument(1));
  out.second = make(steps(), ExprType::f32);
  out.stored = random() % 2 == 0 ? out.second : make(steps(), ExprType::f32);
  leaves.push_back(argument(0));
  leaves.push_back(argument(2));
  out.result = make(steps(), register_type(forms.back().type));
  if (wide && is_integer(forms.back().type)) {
    out.result = convert(out.result, compute_type(forms.back().type));
  }
  return out;
}

TEST(GeneratedRows, HaveTheBitsOfTheInterpreterOnRandomDescriptions) {
  const std::vector<Isa> isas = host_isas();
  if (isas.empty()) GTEST_SKIP() << "this processor has no machine";
  for (int64_t seed = 0; seed < cpu::test::cases(300); ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Isa isa = isas[static_cast<size_t>(seed) % isas.size()];
    const std::vector<ElementType> types = operand_types(isa);
    std::vector<KernelOperand> forms;
    const size_t inputs = 1 + random() % (seed % 10 == 0 ? 12 : 3);
    for (size_t i = 0; i < inputs; ++i) {
      const ElementType type =
          random() % 3 == 0 ? types[random() % types.size()] : ElementType::f32;
      forms.push_back({type, random() % 3 == 0});
    }
    forms.push_back({});
    forms.push_back({random() % 3 == 0 ? types[random() % types.size()] : ElementType::f32});
    std::mt19937 again = random;
    Formulas formulas = random_formulas(random, forms, false);
    Formulas expected = random_formulas(again, forms, true);
    Rows(forms, std::move(formulas), std::move(expected))
        .compare(1 + static_cast<int64_t>(random() % 4), 1 + static_cast<int64_t>(random() % 200),
                 random, isa);
    if (HasFatalFailure()) FAIL() << "case " << seed << ", " << to_string(isa);
  }
}

TEST(GeneratedRows, ComputeSoftmax) {
  std::mt19937 random(1);
  const Expr x = Expr::argument(0, ExprType::f32), row = Expr::argument(1, ExprType::f32);
  const Expr most = Expr::argument(2, ExprType::f32), sum = Expr::argument(3, ExprType::f32);
  const Formulas softmax{x, exp(x - most), exp(x - most), row / sum, ExprOp::max, ExprOp::add};
  for (const Isa isa : host_isas()) {
    for (const int64_t columns : {1, 31, 32, 33, 64, 197, 768}) {
      Rows({{}, {}, {}}, softmax, softmax).compare(3, columns, random, isa);
    }
  }
}

}  // namespace
}  // namespace lathe::codegen
