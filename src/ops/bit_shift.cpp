// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register bit_shift_op{{
    .name = "bit_shift",
    .doc = "x shifted by y bits; what leaves the type is lost.",
    .operands = {{"x", kUnsigned, Arity::one, 'T'}, {"y", kUnsigned, Arity::one, 'T'}},
    .attributes = {{"direction", AttributeKind::text}},
    .formula =
        [](const Formula& f) {
          return f.text("direction") == "LEFT" ? f.x(0) << f.x(1) : f.x(0) >> f.x(1);
        },
}};

}  // namespace lathe
