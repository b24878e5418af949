// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>

#include "ops/interpret.h"
#include "ops/math.h"
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

// The parts of a reduction in one type that are not the identity.
struct CompiledReduction {
  std::optional<CompiledExpr> term;
  std::optional<CompiledExpr> finish;
};

struct Entry {
  Reduction reduction;
  std::once_flag once[3];
  CompiledReduction compiled[3];

  const CompiledReduction& in(ExprType type) {
    const size_t i = type == ExprType::f64 ? 0 : type == ExprType::i64 ? 1 : 2;
    std::call_once(once[i], [&] {
      const Expr x = Expr::argument(0, type);
      const Expr term = reduction.term(x);
      const Expr finish = reduction.finish(x, Expr::argument(1, type));
      if (term.op() != ExprOp::argument) compiled[i].term.emplace(term);
      if (finish.op() != ExprOp::argument) compiled[i].finish.emplace(finish);
    });
    return compiled[i];
  }
};

std::map<std::string_view, Entry>& entries() {
  static std::map<std::string_view, Entry> entries;
  return entries;
}

template <class A>
constexpr ElementType kElement = std::is_same_v<A, double>    ? ElementType::f64
                                 : std::is_same_v<A, int64_t> ? ElementType::i64
                                                              : ElementType::u64;

// Integers wrap around, which signed ones may not.
template <class A>
using Wrapping = std::conditional_t<std::is_same_v<A, double>, double, uint64_t>;

template <class A>
A combine(ExprOp op, A value, std::span<const A> terms) {
  using W = Wrapping<A>;
  const auto fold = [&](auto&& step) {
    for (const A term : terms) value = step(value, term);
    return value;
  };
  switch (op) {
    case ExprOp::add:
      return fold([](A a, A b) { return static_cast<A>(static_cast<W>(a) + static_cast<W>(b)); });
    case ExprOp::mul:
      return fold([](A a, A b) { return static_cast<A>(static_cast<W>(a) * static_cast<W>(b)); });
    case ExprOp::max:
      return fold([](A a, A b) { return b > a || b != b ? b : a; });
    default:
      return fold([](A a, A b) { return b < a || b != b ? b : a; });
  }
}

// Folds one group of elements.
template <class A, class Group>
A reduce_group(const Reduction& reduction, const CompiledReduction& compiled, A value,
               const Group& group) {
  std::array<A, 128> elements;
  std::array<A, 128> terms;
  size_t count = 0;
  const auto take = [&] {
    if (compiled.term) {
      compiled.term->run({{{elements.data(), kElement<A>}}}, terms.data(), kElement<A>,
                         static_cast<int64_t>(count));
    }
    value = combine<A>(reduction.combine, value,
                       std::span<const A>(compiled.term ? terms : elements).first(count));
    count = 0;
  };
  group.each([&](auto x) {
    elements[count++] = static_cast<A>(x);
    if (count == elements.size()) take();
  });
  take();
  if (!compiled.finish) return value;
  const A n = static_cast<A>(group.count());
  A result;
  compiled.finish->run({{{&value, kElement<A>}, {&n, kElement<A>}}}, &result, kElement<A>, 1);
  return result;
}

void eval_reduction(Evaluation& c) {
  Entry& entry = entries().at(c.instruction().op().name);
  const ElementType element = c.in(0).type;
  const ExprType type = entry.reduction.type(element);
  const uint64_t init = entry.reduction.init(element);
  const CompiledReduction& compiled = entry.in(type);
  eval_reduce(c, [&](const auto& group) {
    using T = typename std::remove_cvref_t<decltype(group)>::Element;
    const auto reduced = [&]<class A>(A value) {
      return folded_element<T>(reduce_group(entry.reduction, compiled, value, group));
    };
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      if (type != ExprType::f64) return reduced(static_cast<Wide>(init));
    }
    return reduced(std::bit_cast<double>(init));
  });
}

// The symbolic values of a reduction that only combines dims; null for others.
using DimFold = Dim (*)(const Dim& a, const Dim& b);
DimFold dim_fold(const Reduction& reduction) {
  const Expr x = Expr::argument(0, ExprType::i64);
  const Expr n = Expr::argument(1, ExprType::i64);
  if (reduction.real || reduction.finish(reduction.term(x), n).id() != x.id()) return nullptr;
  switch (reduction.combine) {
    case ExprOp::add:
      return [](const Dim& a, const Dim& b) { return a + b; };
    case ExprOp::mul:
      return [](const Dim& a, const Dim& b) { return a * b; };
    case ExprOp::max:
      return [](const Dim& a, const Dim& b) { return Dim::max(a, b); };
    default:
      return [](const Dim& a, const Dim& b) { return Dim::min(a, b); };
  }
}

}  // namespace

ExprType Reduction::type(ElementType element) const {
  if (real || is_floating(element)) return ExprType::f64;
  return element == ElementType::boolean ? ExprType::u64 : compute_type(element);
}

uint64_t Reduction::init(ElementType element) const {
  const ExprType in = type(element);
  const bool lowest = combine == ExprOp::max;
  const bool sums = combine == ExprOp::add || combine == ExprOp::mul;
  const int neutral = combine == ExprOp::mul ? 1 : 0;
  if (in == ExprType::f64) {
    return std::bit_cast<uint64_t>(sums ? neutral : lowest ? -kInfinity : kInfinity);
  }
  if (sums) return static_cast<uint64_t>(neutral);
  const int spare = 64 - info(element).bits;
  if (in == ExprType::u64) {
    const uint64_t largest = element == ElementType::boolean ? 1 : ~uint64_t{0} >> spare;
    return lowest ? 0 : largest;
  }
  return static_cast<uint64_t>((lowest ? INT64_MIN : INT64_MAX) >> spare);
}

Expr Reduction::combined(const Expr& a, const Expr& b) const {
  switch (combine) {
    case ExprOp::add:
      return a + b;
    case ExprOp::mul:
      return a * b;
    case ExprOp::max:
      return max(a, b);
    default:
      return min(a, b);
  }
}

Op reduction_op(const Reduction& reduction) {
  entries()[reduction.name].reduction = reduction;
  return {
      .name = reduction.name,
      .doc = reduction.doc,
      .operands = reduce_operands(reduction.types),
      .attributes = reduce_attributes(),
      .on_host = {1},
      .infer = [](Infer& c) { infer_reduce(c, dim_fold(*find_reduction(c.instruction().op()))); },
      .eval = eval_reduction,
      .tokens = reduced_tokens,
  };
}

const Reduction* find_reduction(const Op& op) {
  const auto at = entries().find(op.name);
  return at == entries().end() ? nullptr : &at->second.reduction;
}

}  // namespace lathe
