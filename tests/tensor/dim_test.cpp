// SPDX-License-Identifier: MIT
#include "tensor/dim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "base/error.h"

namespace lathe {

void PrintTo(const Dim& dim, std::ostream* out) { *out << dim.to_string(); }

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

SymbolRef make_symbol(std::string name, Range range = {}) {
  return std::make_shared<Symbol>(Symbol{std::move(name), SymbolKind::bound, range, {}});
}

class Dims : public ::testing::Test {
 protected:
  Dim read(std::string_view text) const {
    return Dim::parse(text, [&](std::string_view name) {
      const auto found = symbols_.find(name);
      return found == symbols_.end() ? nullptr : found->second;
    });
  }
  // Compares dims and their text, so that a failure prints the forms.
  void expect_same(std::string_view a, std::string_view b) const {
    EXPECT_EQ(read(a), read(b)) << a << " against " << b;
    EXPECT_EQ(read(a).to_string(), read(b).to_string());
    EXPECT_EQ(equal(read(a), read(b)), Ternary::yes);
  }
  void expect_print(std::string_view text, std::string_view printed) const {
    EXPECT_EQ(read(text).to_string(), printed) << text;
    EXPECT_EQ(read(printed), read(text)) << text;
  }
  std::string error_of(std::string_view text) const {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << text;
      return error.message();
    }
    return "no error";
  }

  std::map<std::string, SymbolRef, std::less<>> symbols_ = [] {
    std::map<std::string, SymbolRef, std::less<>> symbols;
    for (const char* name : {"a", "b", "c", "batch", "min", "two words", "\xc3\xa9\"\\"}) {
      symbols[name] = make_symbol(name);
    }
    symbols["p"] = make_symbol("p", {1, kUnbounded});
    symbols["q"] = make_symbol("q", {2, 8});
    symbols["r"] = make_symbol("r", {0, 3});
    symbols["z"] = make_symbol("z", {-4, 4});
    return symbols;
  }();
  Dim a_ = Dim(symbols_["a"]);
  Dim b_ = Dim(symbols_["b"]);
};

TEST_F(Dims, ConstantsAreIntegers) {
  EXPECT_EQ(Dim(3) * 4 + 1 - 20, Dim(-7));
  EXPECT_EQ(Dim().constant(), 0);
  EXPECT_TRUE(Dim(5).is_constant());
  EXPECT_FALSE(a_.is_constant());
  EXPECT_EQ(a_.constant(), std::nullopt);
  EXPECT_EQ((a_ - a_).constant(), 0);
  EXPECT_EQ((a_ * 0).constant(), 0);
  EXPECT_EQ(Dim(kMin).to_string(), "-9223372036854775808");
}

TEST_F(Dims, OnlyABareSymbolIsASymbol) {
  EXPECT_EQ(a_.as_symbol(), symbols_["a"]);
  EXPECT_EQ((a_ + 1 - 1).as_symbol(), symbols_["a"]);
  for (const char* text : {"a + 1", "2*a", "a*a", "a + b", "4", "floor_div(a, 2)"}) {
    EXPECT_EQ(read(text).as_symbol(), nullptr) << text;
  }
}

TEST_F(Dims, PolynomialsHaveOneForm) {
  expect_same("(a + b) * 2", "2 * b + a * 2");
  expect_same("(a + 1) * (a - 1)", "a*a - 1");
  expect_same("(a + b) * (a + b)", "a*a + 2*a*b + b*b");
  expect_same("a*b*c", "c*(b*a)");
  expect_same("a - (b - a)", "-b + 2*a");
  expect_same("(a + b + c)*(a - b) + b*(b + c) - a*c", "a*a");
}

TEST_F(Dims, DivisionSplitsOffMultiplesOfTheDivisor) {
  expect_same("floor_div(4*a + 8, 4)", "a + 2");
  expect_same("floor_div(4*a + b, 4)", "a + floor_div(b, 4)");
  expect_same("floor_div(4*a + b + 9, 4)", "a + 2 + floor_div(b + 1, 4)");
  expect_same("floor_div(4*a - 1, 4)", "a - 1");
  expect_same("floor_div(a*b + b*c, b)", "a + c");
  expect_same("floor_div(a*b*6 + c, 2*b)", "3*a + floor_div(c, 2*b)");
  expect_same("floor_div(a, 1)", "a");
  expect_same("floor_div(a, -1)", "-a");
  expect_same("floor_div(a, -3)", "floor_div(-a, 3)");
  expect_same("floor_div(a, a)", "1");
  expect_same("floor_div(0, a)", "0");
  expect_same("ceil_div(4*a + 8, 4)", "a + 2");
  expect_same("ceil_div(a*b, b)", "a");
  expect_same("ceil_div(a*b + 1, b)", "a + ceil_div(1, b)");
}

TEST_F(Dims, DivisionCancelsCommonFactors) {
  expect_same("floor_div(2*a + 2, 4)", "floor_div(a + 1, 2)");
  expect_same("floor_div(2*a + 3, 4)", "floor_div(a + 1, 2)");
  expect_same("floor_div(6*a + 3, 4)", "floor_div(3*a + 1, 2)");
  expect_same("floor_div(a*b, 2*a)", "floor_div(b, 2)");
  expect_same("floor_div(3*a*b + a*c, 2*a*b)", "floor_div(3*b + c, 2*b)");
  expect_same("floor_div(a, 2*a)", "0");
  expect_same("ceil_div(a*b, 2*a*c)", "ceil_div(b, 2*c)");
  expect_same("ceil_div(a*b, 2*a)", "ceil_div(b, 2)");
  expect_same("mod(-b, 17*b)", "16*b");
}

TEST_F(Dims, ExactPolynomialDivisionIsSimplified) {
  expect_same("floor_div(a*b + b, a + 1)", "b");
  expect_same("floor_div(a*a - 1, a - 1)", "a + 1");
  expect_same("floor_div(a*b*c + b*c - 2*a - 2, a + 1)", "b*c - 2");
  expect_same("ceil_div(a*b + b, a + 1)", "b");
  expect_same("mod(a*b + b, a + 1)", "0");
  expect_print("floor_div(a*b, a + 1)", "floor_div(a*b, a + 1)");
}

TEST_F(Dims, NestedDivisionsMerge) {
  expect_same("floor_div(floor_div(a, 2), 3)", "floor_div(a, 6)");
  expect_same("floor_div(floor_div(a - 1, 2) + 1, 2)", "floor_div(a + 1, 4)");
  // Five padded convolutions of stride two.
  expect_same("ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(a, 2), 2), 2), 2), 2)",
              "ceil_div(a, 32)");
}

TEST_F(Dims, CeilingByAConstantIsAFloor) {
  expect_same("ceil_div(a, 2)", "floor_div(a + 1, 2)");
  expect_same("ceil_div(a, -2)", "ceil_div(-a, 2)");
  EXPECT_EQ(Dim::ceil_div(7, 2), Dim(4));
  EXPECT_EQ(Dim::ceil_div(-7, 2), Dim(-3));
  EXPECT_EQ(Dim::ceil_div(7, -2), Dim(-3));
}

TEST_F(Dims, ModuloDropsMultiplesAndCommonFactors) {
  expect_same("mod(4*a, 4)", "0");
  expect_same("mod(a*b, b)", "0");
  expect_same("mod(4*a + b + 5, 4)", "mod(b + 1, 4)");
  expect_same("mod(2*a + 1, 4)", "2*mod(a, 2) + 1");
  expect_same("mod(a*b, a*c)", "a*mod(b, c)");
  expect_same("mod(a, -3)", "-mod(-a, 3)");
  expect_same("mod(a, 1)", "0");
  EXPECT_EQ(Dim::mod(-7, 3), Dim(2));
  EXPECT_EQ(Dim::mod(7, -3), Dim(-2));
}

TEST_F(Dims, RangesSimplifyDivisionsMinAndMax) {
  expect_same("floor_div(r, 4)", "0");
  expect_same("mod(r, 4)", "r");
  expect_same("floor_div(8*a + r + 4, 8)", "a");
  expect_same("min(r, 5)", "r");
  expect_same("max(r, 5)", "5");
  expect_same("min(a, a + b)", "a");
  expect_same("max(a, a + b)", "a + b");
  expect_same("min(a, floor_div(a, 2))", "floor_div(a, 2)");
  expect_same("min(a, min(a, b) + 1, b)", "min(a, b)");
  expect_print("min(a, 5)", "min(5, a)");
}

TEST_F(Dims, MinAndMaxAreOneFlatSet) {
  expect_same("min(a, min(b, c))", "min(min(c, a), b)");
  expect_same("min(a, b, c, a)", "min(c, b, a)");
  expect_same("max(a + 1, b + 1)", "max(a, b) + 1");
  expect_same("min(min(a, b) + 1, c)", "min(a + 1, min(b + 1, c))");
  expect_print("max(b + 2, a + 1)", "max(a, b + 1) + 1");
}

TEST_F(Dims, BroadcastSelectsTheSizeThatIsNotOne) {
  expect_same("bcast(a, 1)", "a");
  expect_same("bcast(1, a)", "a");
  expect_same("bcast(a, a)", "a");
  expect_same("bcast(a, 7)", "7");
  expect_same("bcast(a, q)", "q");  // q >= 2
  expect_same("bcast(a, bcast(b, c))", "bcast(bcast(c, a), b)");
  EXPECT_EQ(Dim::bcast(3, 3), Dim(3));
  EXPECT_EQ(Dim::bcast(0, 1), Dim(0));
  EXPECT_THROW(Dim::bcast(2, 3), Error);
  EXPECT_EQ(equal(Dim::bcast(a_, b_), a_), Ternary::unknown);
}

TEST_F(Dims, BroadcastRequiresEqualSizesOrOne) {
  const Dim both = Dim::bcast(a_, b_);
  const auto at = [&](int64_t a, int64_t b) {
    return both.evaluate([&](const Symbol& symbol) { return symbol.name == "a" ? a : b; });
  };
  EXPECT_EQ(at(3, 3), 3);
  EXPECT_EQ(at(1, 4), 4);
  EXPECT_EQ(at(4, 1), 4);
  EXPECT_EQ(at(0, 1), 0);
  EXPECT_EQ(at(2, 3), std::nullopt);
  EXPECT_EQ(at(0, 3), std::nullopt);
}

TEST_F(Dims, EqualityAnswersYesNoOrUnknown) {
  const auto ask = [&](std::string_view a, std::string_view b) { return equal(read(a), read(b)); };
  EXPECT_EQ(ask("a + b", "b + a"), Ternary::yes);
  EXPECT_EQ(ask("a", "a + 1"), Ternary::no);
  EXPECT_EQ(ask("a", "b"), Ternary::unknown);
  EXPECT_EQ(ask("a + 1", "0"), Ternary::no);
  EXPECT_EQ(ask("2*a + 1", "4*b"), Ternary::no);
  EXPECT_EQ(ask("q", "1"), Ternary::no);
  EXPECT_EQ(ask("q", "8"), Ternary::unknown);
  EXPECT_EQ(ask("q + p", "2"), Ternary::no);
  EXPECT_EQ(ask("min(a, b)", "a + 1"), Ternary::no);
  EXPECT_EQ(ask("3", "4"), Ternary::no);
}

TEST_F(Dims, OrderAnswersYesNoOrUnknown) {
  const auto ask = [&](std::string_view a, std::string_view b) {
    return less_equal(read(a), read(b));
  };
  EXPECT_EQ(ask("a", "a + b"), Ternary::yes);
  EXPECT_EQ(ask("a + b + 1", "a"), Ternary::no);
  EXPECT_EQ(ask("a", "b"), Ternary::unknown);
  EXPECT_EQ(ask("floor_div(a, 2)", "a"), Ternary::yes);
  EXPECT_EQ(ask("2*ceil_div(a, 2)", "a + 1"), Ternary::yes);
  EXPECT_EQ(ask("a", "2*ceil_div(a, 2)"), Ternary::yes);
  EXPECT_EQ(ask("min(a, b)", "max(a, c)"), Ternary::yes);
  EXPECT_EQ(ask("max(a, b)", "a + b"), Ternary::yes);
  EXPECT_EQ(ask("q", "8"), Ternary::yes);
  EXPECT_EQ(ask("9", "q"), Ternary::no);
  EXPECT_EQ(ask("4", "3"), Ternary::no);
}

TEST_F(Dims, RangesSaturate) {
  EXPECT_EQ(read("a").range(), (Range{0, kUnbounded}));
  EXPECT_EQ(read("a + 5").range(), (Range{5, kUnbounded}));
  EXPECT_EQ(read("-a").range(), (Range{-kUnbounded, 0}));
  EXPECT_EQ(read("a - b").range(), (Range{-kUnbounded, kUnbounded}));
  EXPECT_EQ(read("q*r - 1").range(), (Range{-1, 23}));
  EXPECT_EQ(read("z*q").range(), (Range{-32, 32}));
  EXPECT_EQ(read("floor_div(a + 7, 4)").range(), (Range{1, kUnbounded}));
  EXPECT_EQ(read("floor_div(q, p)").range(), (Range{0, 8}));
  EXPECT_EQ(read("mod(a, 6)").range(), (Range{0, 5}));
  EXPECT_EQ(read("mod(a, q)").range(), (Range{0, 7}));
  EXPECT_EQ(read("min(a, q)").range(), (Range{0, 8}));
  EXPECT_EQ(read("max(a, q)").range(), (Range{2, kUnbounded}));
  EXPECT_EQ(read("9223372036854775807*a*a").range(), (Range{0, kUnbounded}));
  EXPECT_EQ(Dim(kMin).range().min, -kUnbounded);
  const auto ten = [](const Symbol&) { return Range{10, 10}; };
  EXPECT_EQ(read("a*b + 1").range_under(ten), (Range{101, 101}));
}

TEST_F(Dims, UndefinedValuesAreNullopt) {
  const auto one = [](const Symbol&) { return std::optional<int64_t>(1); };
  const auto none = [](const Symbol&) { return std::optional<int64_t>(); };
  const auto huge = [](const Symbol&) { return std::optional<int64_t>(kUnbounded); };
  EXPECT_EQ(read("floor_div(b, a - 1)").evaluate(one), std::nullopt);
  EXPECT_EQ(read("mod(b, a - 1)").evaluate(one), std::nullopt);
  EXPECT_EQ(read("ceil_div(b, a - 1)").evaluate(one), std::nullopt);
  EXPECT_EQ(read("a + 1").evaluate(none), std::nullopt);
  EXPECT_EQ(read("a + 1").evaluate(huge), std::nullopt);
  EXPECT_EQ(read("a * b").evaluate(huge), std::nullopt);
  EXPECT_EQ(read("a").evaluate(huge), kUnbounded);
  EXPECT_EQ(read("ceil_div(5, a + 1)").evaluate(one), 3);
}

TEST_F(Dims, ArithmeticBeyond64BitsIsAnError) {
  EXPECT_THROW(Dim(kUnbounded) + 1, Error);
  EXPECT_THROW(Dim(kMin) - 1, Error);
  EXPECT_THROW(Dim(0) - Dim(kMin), Error);
  EXPECT_THROW(Dim(kUnbounded) * 2, Error);
  EXPECT_THROW(a_ * kUnbounded * 2, Error);
  EXPECT_THROW(Dim::floor_div(kMin, -1), Error);
  EXPECT_EQ(Dim(-1) - Dim(kMin), Dim(kUnbounded));
  EXPECT_EQ(Dim::mod(kMin, -1), Dim(0));
  EXPECT_EQ(equal(a_ + kUnbounded, b_ - 2), Ternary::unknown);
}

TEST_F(Dims, DivisionByTheConstantZeroIsAnError) {
  EXPECT_THROW(Dim::floor_div(a_, 0), Error);
  EXPECT_THROW(Dim::ceil_div(a_, 0), Error);
  EXPECT_THROW(Dim::mod(4, 0), Error);
}

TEST_F(Dims, ExpressionsOfHostileFilesStayBounded) {
  Dim nested = a_;
  EXPECT_THROW(for (int i = 0; i < 1000; ++i) nested = Dim::floor_div(b_ + nested, nested + 2),
               Error);
  EXPECT_LT(nested.to_string().size(), 100000u);
  Dim power = a_ + b_ + 1;
  EXPECT_THROW(for (int i = 0; i < 20; ++i) power = power * power, Error);
  std::string deep(100000, '(');
  EXPECT_NE(error_of(deep).find("nested"), std::string::npos);
  Dim lowest = a_;
  EXPECT_THROW(for (int i = 0; i < 1000; ++i) lowest =
                   Dim::min(lowest, Dim(make_symbol("s" + std::to_string(i)))),
               Error);
}

TEST_F(Dims, SubstitutionRebuildsTheCanonicalForm) {
  const auto put = [&](std::string_view text, std::string_view name, std::string_view value) {
    return read(text).substitute({{std::string(name), read(value)}});
  };
  EXPECT_EQ(put("2*a*b + a", "a", "b + 1"), read("2*b*b + 3*b + 1"));
  EXPECT_EQ(put("floor_div(a, 4)", "a", "8*b + 4"), read("2*b + 1"));
  EXPECT_EQ(put("bcast(a, b)", "b", "1"), read("a"));
  EXPECT_EQ(put("min(a, b, c)", "b", "a + 3"), read("min(a, c)"));
  EXPECT_EQ(put("a + c", "b", "7"), read("a + c"));
  EXPECT_EQ(read("a - b").substitute({{"a", b_}, {"b", a_}}), read("b - a"));
  EXPECT_EQ(put("mod(a, 3) + ceil_div(4, a) + max(a, 9)", "a", "5").constant(), 12);
}

TEST_F(Dims, SymbolsAreCollectedOnceInOrder) {
  std::vector<SymbolRef> symbols;
  read("floor_div(b*b + a, c) + a").collect_symbols(symbols);
  std::vector<std::string> names;
  for (const SymbolRef& symbol : symbols) names.push_back(symbol->name);
  EXPECT_EQ(names.size(), 3u);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
  read("batch + a").collect_symbols(symbols);
  EXPECT_EQ(symbols.size(), 4u);
}

TEST_F(Dims, TextShowsHighDegreesFirst) {
  expect_print("4", "4");
  expect_print("batch", "batch");
  expect_print("p - 1 + 2*c*batch", "2*batch*c + p - 1");
  expect_print("1 + floor_div(a + 1, 2)", "floor_div(a + 1, 2) + 1");
  expect_print("-a + b", "-a + b");
  expect_print("-9223372036854775808*a - 9223372036854775808",
               "-9223372036854775808*a - 9223372036854775808");
  expect_print(" ( a )*-2 ", "-2*a");
}

TEST_F(Dims, NamesThatAreNotIdentifiersAreQuoted) {
  expect_print("\"two words\" + 1", "\"two words\" + 1");
  EXPECT_EQ(Dim(symbols_["min"]).to_string(), "\"min\"");
  const Dim odd(symbols_["\xc3\xa9\"\\"]);
  EXPECT_EQ(odd.to_string(), R"("\xc3\xa9\"\\")");
  EXPECT_EQ(read(odd.to_string()), odd);
}

TEST_F(Dims, SyntaxErrorsNameTheOffset) {
  const std::pair<const char*, const char*> cases[] = {
      {"", " at offset 0"},
      {"a +", " at offset 3"},
      {"a b", " at offset 2"},
      {"a + unknown", " at offset 4"},
      {"floor_div(a)", " at offset 11"},
      {"floor_div(a, b, c)", " at offset 14"},
      {"min(a", " at offset 5"},
      {"(a", " at offset 2"},
      {"9223372036854775808", " at offset 19"},
      {"99999999999999999999999", " at offset 19"},
      {"\"a", " at offset 2"},
      {"\"\\q\"", " at offset 1"},
      {"\"\\xg0\"", " at offset 1"},
      {"floor_div(a, 0)", " at offset 14"},
      {"9223372036854775807 + 1", " at offset 23"},
      {"a @ b", " at offset 2"},
  };
  for (const auto& [text, ending] : cases) {
    const std::string message = error_of(text);
    EXPECT_TRUE(message.ends_with(ending)) << "'" << text << "': " << message;
  }
}

TEST_F(Dims, OrderOfFormsIsTotal) {
  const char* texts[] = {"1",
                         "2",
                         "a",
                         "a + 1",
                         "b",
                         "2*a",
                         "a*a",
                         "a*b",
                         "a + b",
                         "min(a, b)",
                         "max(a, b)",
                         "floor_div(a, 2)",
                         "floor_div(a, 3)",
                         "bcast(a, b, c)"};
  for (const char* x : texts) {
    for (const char* y : texts) {
      const int order = Dim::compare(read(x), read(y));
      EXPECT_EQ(order == 0, x == y) << x << " and " << y;
      EXPECT_EQ(order < 0, Dim::compare(read(y), read(x)) > 0) << x << " and " << y;
    }
  }
}

}  // namespace
}  // namespace lathe
