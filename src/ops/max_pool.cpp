// SPDX-License-Identifier: MIT
#include "ops/support/pooling.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// Converts the index of an element in a plane from row-major to column-major.
int64_t column_major(int64_t tap, std::span<const int64_t> extents) {
  int64_t at = 0;
  int64_t stride = 1;
  for (const int64_t extent : extents) stride *= extent;
  for (size_t i = extents.size(); i-- > 0; tap /= extents[i]) {
    stride /= extents[i];
    at += tap % extents[i] * stride;
  }
  return at;
}

template <class T>
void evaluate(Evaluation& c) {
  const auto spatial = c.in(0).extents().subspan(2);
  int64_t plane_size = 1;
  for (const int64_t extent : spatial) plane_size *= extent;
  int64_t outputs = 1;
  for (const int64_t extent : c.out(0).extents().subspan(2)) outputs *= extent;
  Tensor indices(ElementType::i64, dims_of(c.out(1)));
  const bool columns = c.integer("storage_order") == 1;
  run_pool<T>(c, [&](const T* plane, const PoolWindow& window, int64_t element) {
    T best = -std::numeric_limits<T>::infinity();
    int64_t where = -1;
    for (const int64_t tap : window.taps) {
      const T value = plane[tap];
      // The first of equal elements; a NaN replaces numbers and is kept.
      if (where < 0 || value > best || (value != value && best == best)) {
        best = value;
        where = tap;
      }
    }
    if (where >= 0 && columns) where = column_major(where, spatial);
    indices.as<int64_t>()[element] = where < 0 ? where : element / outputs * plane_size + where;
    return best;
  });
  copy_elements(indices.view(), c.out(1));
}

}  // namespace

static const Register max_pool{{
    .name = "max_pool",
    .doc = "The maximum of each window, and its index in x.",
    .operands = {{.name = "x", .types = kPoolTypes | types(ElementType::i8, ElementType::u8)}},
    .attributes = pool_attributes({{"storage_order", 0}}),
    .results = 2,
    .infer =
        [](Infer& c) {
          const std::vector<Dim> dims = pool_dims(c);
          c.result(c.element(0), dims);
          c.result(ElementType::i64, dims);
        },
    .eval =
        [](Evaluation& c) {
          // f32 represents every 8-bit integer.
          c.in(0).type == ElementType::f64 ? evaluate<double>(c) : evaluate<float>(c);
        },
}};

}  // namespace lathe
