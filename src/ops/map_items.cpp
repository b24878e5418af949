// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_map_items(Infer& c) {
  c.check(c.type(0).item->is_tensor(), "the map's values are {}, expected tensors",
          c.type(0).item->to_string());
  const Dim count = c.found("items");
  c.result(c.element(0), {count});
  c.result(c.type(0).item->element, {count});
}

void eval_map_items(Evaluation& c) {
  const auto* map = std::get_if<std::shared_ptr<const BoxMap>>(&c.box(0).value);
  c.check(map != nullptr, "the operand is not a map, but alternative {}", c.box(0).value.index());
  const BoxMap& items = **map;
  const TensorView& keys = c.out(0, items.keys.dims());
  c.check(items.keys.type() == keys.type, "the keys are {}, expected {}",
          to_string(items.keys.type()), to_string(keys.type));
  copy_elements(items.keys.view(), keys);
  const TensorView& values = c.out(1, items.keys.dims());
  for (size_t i = 0; i < items.values.size(); ++i) {
    const Box& value = items.values[i];
    c.check(
        value.is_tensor() && value.tensor().count() == 1 && value.tensor().type() == values.type,
        "value {} is not a single {}", i, to_string(values.type));
    copy_flat(value.tensor().view(), narrow(values, 0, static_cast<int64_t>(i), 1));
  }
}

}  // namespace

static const Register map_items{{
    .name = "map_items",
    .doc = "The keys of a map in ascending order, and the value of each.",
    .operands = {{.name = "map", .kind = Type::Kind::map}},
    .results = 2,
    .infer = infer_map_items,
    .eval = eval_map_items,
}};

}  // namespace lathe
