// SPDX-License-Identifier: MIT
#include <cmath>
#include <unordered_map>

#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"
#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

// Equal elements have equal keys; all NaNs have one.
std::string hash_key(const Tensor& x, int64_t i) {
  if (x.type() == ElementType::string) return x.as<std::string>()[i];
  if (is_integer(x.type())) return std::to_string(load_int(x.type(), x.data(), i));
  const double value = load_double(x.type(), x.data(), i);
  return fmt::format("{}", std::isnan(value) ? NAN : value + 0.0);
}

void eval_lookup(Evaluation& c) {
  const Tensor x = dense_tensor(c.in(0), c.in(0).type);
  const Tensor keys = dense_tensor(c.in(1), c.in(1).type);
  const Tensor values = dense_tensor(c.in(2), c.in(2).type);
  std::unordered_map<std::string, int64_t> places;
  for (int64_t i = 0; i < keys.count(); ++i) places[hash_key(keys, i)] = i;
  const Tensor y(values.type(), x.dims());
  with_raw_type(values.type(), [&]<class T>(T*) {
    for (int64_t i = 0; i < x.count(); ++i) {
      const auto found = places.find(hash_key(x, i));
      c.check(found != places.end() || c.has(3), "element {} of x is not among the keys", i);
      y.as<T>()[i] = found == places.end() ? *c.in(3).as<T>() : values.as<T>()[found->second];
    }
  });
  store_tensor(y, c.out(0, x.dims()));
}

}  // namespace

static const Register lookup_op{{
    .name = "lookup",
    .doc = "The value of each element's last equal key (NaN equals NaN), the default, or an error.",
    .operands = {{"x", kNumeric | kString, Arity::one, 'K'},
                 {"keys", kNumeric | kString, Arity::one, 'K'},
                 {"values", kNumeric | kString, Arity::one, 'V'},
                 {"default", kNumeric | kString, Arity::optional, 'V'}},
    .infer =
        [](Infer& c) {
          require_ranks(c, {c.rank(0), 1, 1});
          c.require_equal(c.dim(1, 0), c.dim(2, 0), "number of keys and values");
          if (c.has(3)) require_count(c, 3, 1);
          c.result(c.element(2), c.dims(0));
        },
    .eval = eval_lookup,
}};

}  // namespace lathe
