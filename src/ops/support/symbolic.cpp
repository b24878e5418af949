// SPDX-License-Identifier: MIT
#include "ops/support/symbolic.h"

#include "tensor/convert.h"

namespace lathe {

std::vector<Dim> constant_dims(std::span<const int64_t> values) {
  return {values.begin(), values.end()};
}

std::vector<int64_t> integer_values(const Tensor& tensor) {
  const Tensor dense = tensor.dense();
  std::vector<int64_t> values(static_cast<size_t>(dense.count()));
  convert(ElementType::i64, values.data(), dense.type(), dense.data(), dense.count());
  return values;
}

std::optional<std::vector<int64_t>> constant_values(std::span<const Dim> dims) {
  std::vector<int64_t> values;
  for (const Dim& dim : dims) {
    if (!dim.is_constant()) return std::nullopt;
    values.push_back(*dim.constant());
  }
  return values;
}

}  // namespace lathe
