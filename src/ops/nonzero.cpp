// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"

namespace lathe {
namespace {

void infer_nonzero(Infer& c) {
  const Range total = element_count(c.dims(0)).range();
  c.result(ElementType::i64, {c.rank(0), c.found("nonzero", {0, total.max})});
}

void eval_nonzero(Evaluation& c) {
  const ConvertedOperand x(c.in(0), arithmetic_type(c.in(0).type));
  std::vector<int64_t> places;  // index tuples, contiguous
  int64_t count = 0;
  with_number_type(x.view().type, [&]<class T>(T*) {
    for_each_index(x.view().extents(), [&](std::span<const int64_t> index) {
      if (x.view().as<T>()[offset_of(x.view(), index)] == T{0}) return;
      places.insert(places.end(), index.begin(), index.end());
      ++count;
    });
  });
  const int64_t rank = x.view().rank;
  const TensorView& out = c.out(0, std::array{rank, count});
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t axis = 0; axis < rank; ++axis) {
      out.as<int64_t>()[axis * out.strides[0] + i * out.strides[1]] =
          places[static_cast<size_t>(i * rank + axis)];
    }
  }
}

}  // namespace

static const Register nonzero{{
    .name = "nonzero",
    .doc = "The indices of non-zero elements, i64[rank, count], in row-major order.",
    .operands = {{"x", kNumeric | kBoolean | kFloat8 | kSmallInts}},
    .infer = infer_nonzero,
    .eval = eval_nonzero,
}};

}  // namespace lathe
