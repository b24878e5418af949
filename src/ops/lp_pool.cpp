// SPDX-License-Identifier: MIT
#include "ops/support/pooling.h"

namespace lathe {
namespace {

template <class T>
void evaluate(Evaluation& c) {
  const T p = static_cast<T>(c.integer("p"));
  run_pool<T>(c, [&](const T* plane, const PoolWindow& window, int64_t) {
    T sum = 0;
    for (const int64_t tap : window.taps) sum += std::pow(std::abs(plane[tap]), p);
    return std::pow(sum, T(1) / p);
  });
}

}  // namespace

static const Register lp_pool{{
    .name = "lp_pool",
    .doc = "The p-norm of each window.",
    .operands = {{.name = "x", .types = kPoolTypes}},
    .attributes = pool_attributes({{"p", 2}}),
    .infer =
        [](Infer& c) {
          c.check(c.integer("p") > 0, "p is {}, expected at least 1", c.integer("p"));
          c.result(c.element(0), pool_dims(c));
        },
    .eval =
        [](Evaluation& c) {
          c.in(0).type == ElementType::f64 ? evaluate<double>(c) : evaluate<float>(c);
        },
}};

}  // namespace lathe
