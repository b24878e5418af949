// SPDX-License-Identifier: MIT
#include "tests/support/random_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::test {
namespace {

constexpr int64_t kLargest = 6;  // size of an axis

std::optional<int64_t> evaluate(const Dim& dim, const Bindings& bindings) {
  return dim.evaluate([&](const Symbol& symbol) -> std::optional<int64_t> {
    const auto at = bindings.find(symbol.name);
    return at == bindings.end() ? std::nullopt : std::optional(at->second);
  });
}

// Guards on data-dependent symbols count as satisfied.
bool holds(const Guard& guard, const Bindings& bindings) {
  const std::optional<int64_t> a = evaluate(guard.a, bindings);
  const std::optional<int64_t> b = evaluate(guard.b, bindings);
  if (!a || !b) return true;
  switch (guard.relation) {
    case Guard::Relation::equal:
      return *a == *b;
    case Guard::Relation::less_equal:
      return *a <= *b;
    case Guard::Relation::broadcast:
      return *a == *b || *a == 1 || *b == 1;
  }
  return false;
}

double random_number(ElementType type, std::mt19937_64& random) {
  if (!is_floating(type)) {
    const bool is_signed = info(type).cls == ElementClass::signed_int;
    return static_cast<double>(static_cast<int64_t>(random() % 8) - (is_signed ? 4 : 0));
  }
  static constexpr std::array kSpecial{0.0,
                                       -0.0,
                                       1.0,
                                       std::numeric_limits<double>::infinity(),
                                       -std::numeric_limits<double>::infinity(),
                                       std::numeric_limits<double>::quiet_NaN()};
  if (random() % 8 == 0) return kSpecial[random() % kSpecial.size()];
  return std::normal_distribution<double>(0, 2)(random);
}

Tensor random_tensor(ElementType type, Dims dims, std::mt19937_64& random) {
  Tensor tensor(type, std::move(dims));
  const int64_t count = tensor.count();
  if (type == ElementType::string) {
    for (std::string& text : tensor.elements<std::string>()) {
      text = std::string(random() % 4, static_cast<char>('a' + random() % 3));
    }
    return tensor;
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = random_number(type, random);
  convert(type, tensor.data(), ElementType::f64, values.data(), count);
  return tensor;
}

}  // namespace

std::optional<Bindings> bind_symbols(const Program& program, std::mt19937_64& random) {
  std::vector<SymbolRef> symbols;
  for (const auto& parameter : program.main().parameters()) {
    if (!parameter->type().is_ranked()) continue;
    for (const Dim& dim : *parameter->type().dims) dim.collect_symbols(symbols);
  }
  const auto fits = [&](const Bindings& bindings) {
    for (const Guard& guard : program.main().guards()) {
      if (!holds(guard, bindings)) return false;
    }
    for (const auto& parameter : program.main().parameters()) {
      if (!parameter->type().is_ranked()) continue;
      for (const Dim& dim : *parameter->type().dims) {
        if (evaluate(dim, bindings).value_or(-1) < 0) return false;
      }
    }
    return true;
  };
  for (int attempt = 0; attempt < 2000; ++attempt) {
    Bindings bindings;
    for (const SymbolRef& symbol : symbols) {
      const int64_t least = std::max<int64_t>(symbol->range.min, 0);
      const int64_t most = std::max(least, std::min(symbol->range.max, kLargest));
      bindings[symbol->name] =
          least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    }
    if (fits(bindings)) return bindings;
  }
  return std::nullopt;
}

Box random_box(const Type& type, const Bindings& bindings, std::mt19937_64& random) {
  switch (type.kind) {
    case Type::Kind::sequence: {
      std::vector<Box> items;
      for (uint64_t count = random() % 4; count > 0; --count) {
        items.push_back(random_box(*type.item, bindings, random));
      }
      return {std::make_shared<const std::vector<Box>>(std::move(items))};
    }
    case Type::Kind::optional:
      return random() % 3 == 0 ? Box{} : random_box(*type.item, bindings, random);
    case Type::Kind::map:
      fail(ErrorKind::unsupported, "random values of {} are not supported", type.to_string());
    case Type::Kind::tensor:
      break;
  }
  Dims dims;
  if (!type.dims) dims = {static_cast<int64_t>(random() % 3), 2};
  for (size_t i = 0; type.dims && i < type.dims->size(); ++i) {
    dims.push_back(evaluate((*type.dims)[i], bindings).value_or(2));
  }
  return {random_tensor(type.element, std::move(dims), random)};
}

std::vector<Box> random_inputs(const Program& program, const Bindings& bindings,
                               std::mt19937_64& random) {
  std::vector<Box> inputs;
  for (const auto& parameter : program.main().parameters()) {
    inputs.push_back(random_box(parameter->type(), bindings, random));
  }
  return inputs;
}

}  // namespace lathe::test
