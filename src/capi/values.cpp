// SPDX-License-Identifier: MIT
// Optionals without a value, maps, and the strings of a tensor at once.
#include <numeric>

#include "base/error_reason.h"
#include "capi/devices.h"

namespace lathe::capi {
namespace {

lathe_error* make_none(lathe_tensor** out) {
  return guarded([&] { demand(out, "tensor") = new lathe_tensor{}; });
}

// The order of the keys, which must differ.
std::vector<size_t> order_of(const Tensor& keys) {
  std::vector<size_t> order(static_cast<size_t>(keys.count()));
  std::iota(order.begin(), order.end(), size_t{0});
  const auto sort_by = [&](const auto* key) {
    std::ranges::sort(order, [&](size_t a, size_t b) { return key[a] < key[b]; });
    const auto same =
        std::ranges::adjacent_find(order, [&](size_t a, size_t b) { return !(key[a] < key[b]); });
    check(same == order.end(), ErrorKind::invalid_argument,
          "the keys of a map of {} values are not distinct", order.size());
  };
  if (keys.type() == ElementType::string) {
    sort_by(keys.as<std::string>());
  } else {
    sort_by(keys.as<int64_t>());
  }
  return order;
}

lathe_error* make_map(const lathe_tensor* keys, lathe_tensor* const* values, size_t count,
                      lathe_tensor** out) {
  return guarded([&] {
    demand(out, "map");
    const Box& box = host_box(keys, "keys");
    check(
        box.is_tensor() && box.tensor().rank() == 1 &&
            (box.tensor().type() == ElementType::i64 || box.tensor().type() == ElementType::string),
        {ErrorKind::invalid_argument, reason::kType},
        "the keys are {}, expected i64[n] or string[n]",
        box.is_tensor() ? to_string(box.tensor().type(), box.tensor().dims()) : "not a tensor");
    const Tensor given = box.tensor().dense();
    check(static_cast<uint64_t>(given.count()) == count,
          {ErrorKind::invalid_argument, reason::kShape}, "got {} keys for {} values", given.count(),
          count);
    if (count > 0) demand(values, "values");
    const std::vector<size_t> order = order_of(given);
    auto map = std::make_shared<BoxMap>();
    map->keys = Tensor(given.type(), given.dims());
    for (size_t i = 0; i < count; ++i) {
      if (given.type() == ElementType::string) {
        map->keys.as<std::string>()[i] = given.as<std::string>()[order[i]];
      } else {
        map->keys.as<int64_t>()[i] = given.as<int64_t>()[order[i]];
      }
      map->values.push_back(host_box(values[order[i]], fmt::format("values[{}]", order[i])));
    }
    *out = new lathe_tensor{Box{std::shared_ptr<const BoxMap>(std::move(map))}};
  });
}

lathe_error* map_items(const lathe_tensor* given, lathe_tensor** keys, lathe_tensor** values) {
  return guarded([&] {
    demand(keys, "keys");
    demand(values, "values");
    const auto* map = std::get_if<std::shared_ptr<const BoxMap>>(&demand(given, "map").box.value);
    check(map != nullptr, {ErrorKind::invalid_argument, reason::kType},
          "argument '{}' is not a map", "map");
    auto list = std::make_shared<std::vector<Box>>((*map)->values);
    auto made = std::make_unique<lathe_tensor>(lathe_tensor{Box{(*map)->keys}});
    *values = new lathe_tensor{Box{BoxSequence(std::move(list))}};
    *keys = made.release();
  });
}

std::span<std::string> strings_of(const lathe_tensor* tensor, const void* texts, size_t count) {
  const Box& box = demand(tensor, "tensor").box;
  check(box.is_tensor() && box.tensor().type() == ElementType::string && box.tensor().is_dense(),
        {ErrorKind::invalid_argument, reason::kType}, "{} texts require a dense tensor of strings",
        count);
  check(static_cast<uint64_t>(box.tensor().count()) == count,
        {ErrorKind::invalid_argument, reason::kShape}, "got room for {} texts, the tensor has {}",
        count, box.tensor().count());
  check(texts != nullptr || count == 0, ErrorKind::invalid_argument, "argument '{}' is NULL",
        "texts");
  return {box.tensor().as<std::string>(), count};
}

lathe_error* get_strings(const lathe_tensor* tensor, lathe_text* texts, size_t count) {
  return guarded([&] {
    for (const std::string& text : strings_of(tensor, texts, count)) {
      *texts++ = {text.c_str(), text.size()};
    }
  });
}

lathe_error* set_strings(lathe_tensor* tensor, const lathe_text* texts, size_t count) {
  return guarded([&] {
    const std::span<std::string> to = strings_of(tensor, texts, count);
    for (size_t i = 0; i < count; ++i) static_cast<void>(view(texts[i], "texts"));
    for (size_t i = 0; i < count; ++i) to[i] = view(texts[i], "texts");
  });
}

}  // namespace

void add_values(lathe_api& api) {
  api.tensor_none = make_none;
  api.tensor_map = make_map;
  api.tensor_map_items = map_items;
  api.tensor_strings = get_strings;
  api.tensor_set_strings = set_strings;
}

}  // namespace lathe::capi
