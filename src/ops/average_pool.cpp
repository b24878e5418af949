// SPDX-License-Identifier: MIT
#include "ops/support/pooling.h"

namespace lathe {
namespace {

template <class T>
void evaluate(Evaluation& c) {
  const bool all = c.boolean("count_include_pad");
  run_pool<T>(c, [&](const T* plane, const PoolWindow& window, int64_t) {
    T sum = 0;
    for (const int64_t tap : window.taps) sum += plane[tap];
    return sum / static_cast<T>(all ? window.padded : static_cast<int64_t>(window.taps.size()));
  });
}

}  // namespace

static const Register average_pool{{
    .name = "average_pool",
    .doc = "The mean of each window, including or excluding the zeros of the padding.",
    .operands = {{.name = "x", .types = kPoolTypes}},
    .attributes = pool_attributes({{"count_include_pad", Attribute(false)}}),
    .infer = [](Infer& c) { c.result(c.element(0), pool_dims(c)); },
    .eval =
        [](Evaluation& c) {
          c.in(0).type == ElementType::f64 ? evaluate<double>(c) : evaluate<float>(c);
        },
}};

}  // namespace lathe
