// SPDX-License-Identifier: MIT
// Random expressions: Dim against direct evaluation for all values of the symbols.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>

#include "base/error.h"
#include "tensor/dim.h"

namespace lathe {
namespace {

constexpr int kSymbols = 3;
using Values = std::array<int64_t, kSymbols>;
using Value = std::optional<int64_t>;
using Formula = std::function<Value(const Values&)>;

// An expression as a simplified Dim and as a function of the symbols.
struct Expression {
  Dim dim;
  Formula formula;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {
    for (int i = 0; i < kSymbols; ++i) {
      const int64_t low = pick(-3, 3);
      const Range range{low, low + pick(1, 5)};
      symbols_.push_back(std::make_shared<Symbol>(
          Symbol{std::string(1, static_cast<char>('a' + i)), SymbolKind::bound, range, {}}));
    }
  }

  const std::vector<SymbolRef>& symbols() const { return symbols_; }
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  // Throws if the expression divides by zero or broadcasts different constants.
  Expression make(int depth) {
    if (depth == 0 || pick(0, 7) == 0) return make_leaf();
    const Expression x = make(depth - 1);
    const Expression y = make(depth - 1);
    switch (pick(0, 8)) {
      case 0:
        return join(x, y, x.dim + y.dim, [](int64_t a, int64_t b) { return Value(a + b); });
      case 1:
        return join(x, y, x.dim - y.dim, [](int64_t a, int64_t b) { return Value(a - b); });
      case 2:
        return join(x, y, x.dim * y.dim, [](int64_t a, int64_t b) { return Value(a * b); });
      case 3:
        return join(x, y, Dim::floor_div(x.dim, y.dim), floor_div);
      case 4:
        return join(x, y, Dim::ceil_div(x.dim, y.dim), [](int64_t a, int64_t b) {
          const Value quotient = floor_div(-a, b);
          return quotient ? Value(-*quotient) : quotient;
        });
      case 5:
        return join(x, y, Dim::mod(x.dim, y.dim), [](int64_t a, int64_t b) {
          const Value quotient = floor_div(a, b);
          return quotient ? Value(a - *quotient * b) : quotient;
        });
      case 6:
        return join(x, y, Dim::min(x.dim, y.dim),
                    [](int64_t a, int64_t b) { return Value(a < b ? a : b); });
      case 7:
        return join(x, y, Dim::max(x.dim, y.dim),
                    [](int64_t a, int64_t b) { return Value(a < b ? b : a); });
      default:
        return join(x, y, Dim::bcast(x.dim, y.dim), [](int64_t a, int64_t b) {
          if (a != b && a != 1 && b != 1) return Value();
          return Value(a == 1 ? b : a);
        });
    }
  }

 private:
  static Value floor_div(int64_t a, int64_t b) {
    if (b == 0) return std::nullopt;
    int64_t quotient = a / b;
    while (quotient * b > a && b > 0) --quotient;
    while (quotient * b < a && b < 0) --quotient;
    return quotient;
  }

  static Expression join(const Expression& x, const Expression& y, Dim dim, auto f) {
    return {std::move(dim), [x = x.formula, y = y.formula, f](const Values& values) {
              const Value a = x(values);
              const Value b = y(values);
              return a && b ? f(*a, *b) : Value();
            }};
  }

  Expression make_leaf() {
    if (pick(0, 2) == 0) {
      const int64_t value = pick(0, 4) == 0 ? pick(-20, 20) : pick(-1, 4);
      return {Dim(value), [value](const Values&) { return Value(value); }};
    }
    const auto which = static_cast<size_t>(pick(0, kSymbols - 1));
    return {Dim(symbols_[which]), [which](const Values& values) { return Value(values[which]); }};
  }

  std::mt19937 random_;
  std::vector<SymbolRef> symbols_;
};

// Calls `f` for all combinations of the symbols' values.
void for_each_binding(const Generator& generator, const std::function<void(const Values&)>& f) {
  const auto& s = generator.symbols();
  Values v;
  for (v[0] = s[0]->range.min; v[0] <= s[0]->range.max; ++v[0]) {
    for (v[1] = s[1]->range.min; v[1] <= s[1]->range.max; ++v[1]) {
      for (v[2] = s[2]->range.min; v[2] <= s[2]->range.max; ++v[2]) f(v);
    }
  }
}

Value evaluate(const Dim& dim, const Values& values) {
  return dim.evaluate([&](const Symbol& symbol) -> Value {
    return values[static_cast<size_t>(symbol.name[0] - 'a')];
  });
}

std::optional<Expression> try_make(Generator& generator, int depth) {
  try {
    return generator.make(depth);
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
    return std::nullopt;
  }
}

TEST(RandomDims, SimplifiedFormsKeepTheirValuesAndStayInTheirRanges) {
  int compared = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Generator generator(seed);
    const auto e = try_make(generator, static_cast<int>(seed % 4) + 1);
    if (!e) continue;
    const Range range = e->dim.range();
    for_each_binding(generator, [&](const Values& values) {
      const Value expected = e->formula(values);
      if (!expected) return;
      ++compared;
      ASSERT_EQ(evaluate(e->dim, values), expected)
          << "seed " << seed << ": " << e->dim.to_string() << " at " << values[0] << ", "
          << values[1] << ", " << values[2];
      ASSERT_LE(range.min, *expected) << "seed " << seed << ": " << e->dim.to_string();
      ASSERT_GE(range.max, *expected) << "seed " << seed << ": " << e->dim.to_string();
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(compared, 50000);
}

TEST(RandomDims, PrintedFormsRoundTrip) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Generator generator(seed);
    const auto e = try_make(generator, static_cast<int>(seed % 4) + 1);
    if (!e) continue;
    const std::string text = e->dim.to_string();
    const Dim parsed = Dim::parse(text, [&](std::string_view name) {
      return generator.symbols()[static_cast<size_t>(name[0] - 'a')];
    });
    EXPECT_EQ(parsed.to_string(), text) << "seed " << seed;
    EXPECT_TRUE(parsed == e->dim) << "seed " << seed;
  }
}

TEST(RandomDims, ComparisonsHoldForAllValues) {
  int decided = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Generator generator(seed);
    const auto x = try_make(generator, 2);
    const auto y = try_make(generator, 2);
    if (!x || !y) continue;
    const Ternary same = equal(x->dim, y->dim);
    const Ternary ordered = less_equal(x->dim, y->dim);
    decided += (same != Ternary::unknown) + (ordered != Ternary::unknown);
    for_each_binding(generator, [&](const Values& values) {
      const Value a = x->formula(values);
      const Value b = y->formula(values);
      if (!a || !b) return;
      const std::string where = "seed " + std::to_string(seed) + ": " + x->dim.to_string() +
                                " against " + y->dim.to_string();
      if (same != Ternary::unknown) {
        ASSERT_EQ(*a == *b, same == Ternary::yes) << where;
      }
      if (ordered != Ternary::unknown) {
        ASSERT_EQ(*a <= *b, ordered == Ternary::yes) << where;
      }
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(decided, 1000);
}

TEST(RandomDims, SubstitutingConstantsEvaluates) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Generator generator(seed);
    const auto e = try_make(generator, 3);
    if (!e) continue;
    Values values;
    std::map<std::string, Dim, std::less<>> replacements;
    for (size_t i = 0; i < kSymbols; ++i) {
      const Symbol& symbol = *generator.symbols()[i];
      values[i] = generator.pick(symbol.range.min, symbol.range.max);
      replacements[symbol.name] = values[i];
    }
    const Value expected = e->formula(values);
    if (!expected) continue;
    EXPECT_EQ(e->dim.substitute(replacements).constant(), expected)
        << "seed " << seed << ": " << e->dim.to_string();
  }
}

}  // namespace
}  // namespace lathe
