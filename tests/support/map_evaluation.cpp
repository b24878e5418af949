// SPDX-License-Identifier: MIT
#include "tests/support/map_evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/support/symbolic.h"
#include "tensor/convert.h"

namespace lathe::test {
namespace {

// An element as text, the same for equal bits; `flat` counts in row-major order.
std::string element_text(const Tensor& tensor, int64_t flat) {
  const Tensor dense = tensor.dense();
  if (dense.type() == ElementType::string) return dense.as<std::string>()[flat];
  if (is_packed(dense.type()))
    return fmt::format("{}", load_double(dense.type(), dense.data(), flat));
  const auto bytes = static_cast<size_t>(info(dense.type()).bits / 8);
  return {dense.as<char>() + static_cast<size_t>(flat) * bytes, bytes};
}

// Evaluates an index map for the row's operands.
class MapEvaluation {
 public:
  MapEvaluation(const OpRow& row, const SymbolicMap& map,
                const std::map<std::string, int64_t>& bindings)
      : row_(row), map_(map), bindings_(bindings) {}

  // The element that the map reads for this index of the result.
  std::string element_at(std::span<const int64_t> index) const {
    for (const SymbolicMap::Read& read : map_.reads()) {
      const bool here = std::ranges::all_of(
          read.conditions, [&](const Dim& condition) { return value(condition, index) >= 0; });
      if (!here) continue;
      const Tensor& from = read.operand < 0 ? zero() : tensor(read.operand);
      return element_text(from, read.operand < 0 ? 0 : flat(from, read.from, index));
    }
    ADD_FAILURE() << "the map has no read for index [" << fmt::format("{}", fmt::join(index, ", "))
                  << "]";
    return {};
  }

 private:
  const Tensor& tensor(int operand) const {
    return row_.operands[static_cast<size_t>(operand)].box.tensor();
  }
  const Tensor& zero() const {
    static std::map<ElementType, Tensor> zeros;
    const ElementType type = tensor(0).type();
    if (!zeros.contains(type)) zeros.emplace(type, Tensor(type, {}));
    return zeros.at(type);
  }

  int64_t flat(const Tensor& from, const std::vector<Dim>& coordinates,
               std::span<const int64_t> index) const {
    EXPECT_EQ(coordinates.size(), from.dims().size());
    int64_t at = 0;
    for (size_t axis = 0; axis < coordinates.size(); ++axis) {
      const int64_t place = value(coordinates[axis], index);
      const int64_t extent = from.dims()[axis];
      EXPECT_TRUE(place >= 0 && place < extent)
          << coordinates[axis].to_string() << " is " << place << ", the axis has size " << extent;
      at = at * extent + std::clamp<int64_t>(place, 0, extent - 1);
    }
    return at;
  }

  int64_t value(const Dim& dim, std::span<const int64_t> index) const {
    const std::optional<int64_t> found = dim.evaluate([&](const Symbol& symbol)
                                                          -> std::optional<int64_t> {
      for (size_t axis = 0; axis < index.size(); ++axis) {
        if (map_.variables()[axis]->name == symbol.name) return index[axis];
      }
      for (const SymbolicMap::Element& element : map_.elements()) {
        if (element.symbol->name != symbol.name) continue;
        const std::vector<int64_t> integers = integer_values(tensor(element.operand));
        return integers[static_cast<size_t>(flat(tensor(element.operand), element.from, index))];
      }
      const auto at = bindings_.find(symbol.name);
      return at == bindings_.end() ? std::nullopt : std::optional(at->second);
    });
    EXPECT_TRUE(found.has_value()) << dim.to_string() << " has no value";
    return found.value_or(0);
  }

  const OpRow& row_;
  const SymbolicMap& map_;
  const std::map<std::string, int64_t>& bindings_;
};

}  // namespace

void expect_mapped(const OpRow& row, size_t i, const SymbolicMap& map,
                   const std::map<std::string, int64_t>& bindings) {
  const Tensor& expected = row.results[i].box.tensor();
  const MapEvaluation evaluation(row, map, bindings);
  int64_t flat = 0;
  for_each_index(expected.dims(), [&](std::span<const int64_t> index) {
    EXPECT_EQ(evaluation.element_at(index), element_text(expected, flat++))
        << "result " << i << " at [" << fmt::format("{}", fmt::join(index, ", ")) << "]";
  });
}

}  // namespace lathe::test
