// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <ranges>

#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"
#include "ops/support/sequence.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// The last of equal keys counts.
template <class Key>
std::vector<Box> zip_rows(const Tensor& keys, const TensorView& x) {
  std::map<Key, int64_t> columns;
  for (int64_t i = 0; i < keys.count(); ++i) columns[keys.as<Key>()[i]] = i;
  const Tensor sorted(keys.type(), {static_cast<int64_t>(columns.size())});
  std::ranges::copy(std::views::keys(columns), sorted.as<Key>());
  std::vector<Box> maps;
  for (int64_t row = 0; row < x.dims[0]; ++row) {
    const TensorView own = select_axis(x, 0, row);
    auto map = std::make_shared<BoxMap>(BoxMap{sorted, {}});
    for (const auto& [key, column] : columns) {
      map->values.push_back(Box{dense_tensor(select_axis(own, 0, column), x.type)});
    }
    maps.push_back(Box{std::shared_ptr<const BoxMap>(std::move(map))});
  }
  return maps;
}

void eval_zip_map(Evaluation& c) {
  const Tensor keys = dense_tensor(c.in(1), c.in(1).type);
  const TensorView x = c.in(0).rank == 1 ? insert_axis(c.in(0), 0) : c.in(0);
  const bool named = keys.type() == ElementType::string;
  c.set_box(0, make_sequence(named ? zip_rows<std::string>(keys, x) : zip_rows<int64_t>(keys, x)));
}

}  // namespace

static const Register zip_map{{
    .name = "zip_map",
    .doc = "One map per row of x, from the keys to the row's elements.",
    .operands = {{"x", kFloats}, {"keys", types(ElementType::i64, ElementType::string)}},
    .infer =
        [](Infer& c) {
          require_rank(c, 0, 1, 2);
          require_rank(c, 1, 1);
          c.require_equal(c.dims(0).back(), c.dim(1, 0), "columns of x and keys");
          c.result(Type::sequence(Type::map(c.element(1), Type::tensor(c.element(0), {}))));
        },
    .eval = eval_zip_map,
}};

}  // namespace lathe
