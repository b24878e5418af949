// SPDX-License-Identifier: MIT
#include "codegen/narrow.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>

#include "codegen/split.h"
#include "ops/interpret.h"
#include "tests/codegen/kernel_case.h"
#include "tests/kernels/support/cases.h"

namespace lathe::codegen {
namespace {

using test::Case;
using test::host_isas;
using test::same;

constexpr std::array kElements{ElementType::i8,  ElementType::u8,  ElementType::i16,
                               ElementType::u16, ElementType::i32, ElementType::u32,
                               ElementType::i64, ElementType::u64};
constexpr std::span kOfMost32Bits(kElements.data(), 6);

int below(std::mt19937& random, size_t n) { return static_cast<int>(random() % n); }

Expr step(std::mt19937& random, const Expr& a, const Expr& b) {
  switch (below(random, 16)) {
    case 0:
    case 1:
      return a + b;
    case 2:
      return a - b;
    case 3:
      return a * b;
    case 4:
      return min(a, b);
    case 5:
      return max(a, b);
    case 6:
      return a & b;
    case 7:
      return a | b;
    case 8:
      return a ^ b;
    case 9:
      return ~a;
    case 10:
      return -a;
    case 11:
      return a.type() == ExprType::i64 ? abs(a) : a;
    case 12:
      return a << Expr::constant(a.type(), below(random, 34));
    case 13:
      return a >> Expr::constant(a.type(), below(random, 70));
    case 14:
      return select(a < b, a, b + 3);
    default:
      return convert(convert(a == b, ExprType::i32), a.type());
  }
}

// All steps in i64 or u64.
Expr formula_of(std::mt19937& random, const std::vector<KernelOperand>& forms, ElementType result) {
  const ExprType type = random() % 2 == 0 ? ExprType::i64 : ExprType::u64;
  std::vector<Expr> known;
  for (size_t i = 0; i + 1 < forms.size(); ++i) {
    known.push_back(
        convert(Expr::argument(static_cast<int>(i), compute_type(forms[i].type)), type));
  }
  const auto pick = [&] {
    const int n = static_cast<int>(known.size());
    return below(random, 6) == 0 ? Expr::constant(type, below(random, 300))
                                 : known[static_cast<size_t>(below(random, n))];
  };
  for (int i = 1 + below(random, 6); i > 0; --i) known.push_back(step(random, pick(), pick()));
  return convert(known.back(), compute_type(result));
}

// What replaces the kernel; none: it has none.
using Replace = std::optional<KernelDescription> (*)(const KernelDescription&);

// How many of `count` kernels over such elements were generated, each with the interpreter's bits.
int64_t compare_all(Replace replace, std::span<const ElementType> elements, int64_t count) {
  const std::vector<Isa> isas = host_isas();
  int64_t generated = 0;
  for (int64_t seed = 0; seed < count; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Isa isa = isas[static_cast<size_t>(seed) % isas.size()];
    std::vector<KernelOperand> forms;
    for (int i = 1 + below(random, 3); i > 0; --i) {
      forms.push_back(
          {elements[static_cast<size_t>(below(random, elements.size()))], random() % 4 == 0});
    }
    constexpr std::array kResults{ElementType::u8,  ElementType::i8,     ElementType::i32,
                                  ElementType::u32, ElementType::i64,    ElementType::u64,
                                  ElementType::f32, ElementType::boolean};
    const ElementType result = kResults[static_cast<size_t>(below(random, 8))];
    forms.push_back({result});
    const Expr formula = formula_of(random, forms, result);
    KernelDescription kernel{.operands = forms};
    std::vector<NodeId> loads;
    for (size_t i = 0; i + 1 < forms.size(); ++i) {
      loads.push_back(kernel.form.load(static_cast<int>(i), compute_type(forms[i].type)));
    }
    kernel.phases.push_back({{{kernel.form.append(formula, loads),
                               static_cast<int>(forms.size()) - 1, formula.type()}}});
    const std::optional<KernelDescription> replaced = replace(kernel);
    if (!replaced || !why_not_generated(*replaced, isa).empty()) continue;
    ++generated;
    const int64_t rows = 1 + below(random, 3), columns = 1 + below(random, 70);
    const Case data(forms, rows, columns, random);
    KernelCall call = data.call();
    generate(*replaced, isa)->run(call);
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<ElementOperand> in;
      for (size_t i = 0; i + 1 < forms.size(); ++i) {
        in.push_back({data.operands[i].at(row, 0), forms[i].type, forms[i].one_per_row ? 0 : 1});
      }
      std::vector<std::byte> expected(static_cast<size_t>(columns) * 8);
      CompiledExpr(formula).run(in, expected.data(), result, columns);
      for (int64_t column = 0; column < columns; ++column) {
        const size_t at = static_cast<size_t>(column) * data.operands.back().bytes();
        if (same(result, data.operands.back().at(row, column), expected.data() + at)) continue;
        ADD_FAILURE() << to_string(formula) << " to " << to_string(result) << ", case " << seed
                      << ", " << to_string(isa) << ", column " << column << " of " << columns;
        return generated;
      }
    }
  }
  return generated;
}

TEST(Narrow, HasTheBitsOfWideIntegers) {
  if (host_isas().empty()) GTEST_SKIP() << "this processor has no machine";
  const int64_t count = cpu::test::cases(400);
  const Replace replace = [](const KernelDescription& kernel) {
    return std::optional(narrow(kernel));
  };
  EXPECT_GT(compare_all(replace, kOfMost32Bits, count), count / 3);
  EXPECT_GT(compare_all(replace, kElements, count), count / 4);
}

TEST(Split, HasTheBitsOfWideIntegers) {
  if (host_isas().empty()) GTEST_SKIP() << "this processor has no machine";
  const int64_t count = cpu::test::cases(400);
  EXPECT_GT(compare_all(split, kElements, count), count * 3 / 4);
}

TEST(Narrow, LeavesWideWhatDoesNotFit) {
  const Expr x = Expr::argument(0, ExprType::i64);
  const auto generates = [&](const Expr& formula, ElementType from, ElementType to) {
    KernelDescription kernel{.operands = {{from}, {to}}};
    const std::array load{kernel.form.load(0, compute_type(from))};
    kernel.phases.push_back({{{kernel.form.append(formula, load), 1, formula.type()}}});
    return why_not_generated(narrow(kernel), Isa::avx2).empty();
  };
  if (host_isas().empty()) GTEST_SKIP() << "this processor has no machine";
  EXPECT_TRUE(generates(x * 3 + 7, ElementType::i32, ElementType::i32));
  EXPECT_TRUE(generates(x * x, ElementType::i16, ElementType::i64));
  EXPECT_FALSE(generates(x * x, ElementType::i32, ElementType::i64));
  EXPECT_FALSE(generates((x + 1) >> 1, ElementType::i32, ElementType::i32));
  EXPECT_TRUE(generates((x + 1) >> 1, ElementType::i16, ElementType::i16));
  EXPECT_FALSE(generates(x + 1, ElementType::i64, ElementType::i64));
}

}  // namespace
}  // namespace lathe::codegen
