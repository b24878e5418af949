// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/index_map.h"
#include "ops/support/convert_operands.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void eval_reverse_sequence(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const int batch = c.axis("batch_axis", x.view().rank);
  const int time = c.axis("time_axis", x.view().rank);
  const std::vector<int64_t> lengths = c.values(1);
  const int64_t extent = x.view().dims[time];
  c.check(static_cast<int64_t>(lengths.size()) == x.view().dims[batch],
          "got {} lengths for {} rows", lengths.size(), x.view().dims[batch]);
  const UnpackedResult out(c.out(0, x.view().extents()));
  copy_elements(x.view(), out.view());
  for (size_t row = 0; row < lengths.size(); ++row) {
    const int64_t length = lengths[row];
    c.check(length >= 0 && length <= extent, "length {} is out of range for an axis of size {}",
            length, extent);
    const auto at = static_cast<int64_t>(row);
    const TensorView from = narrow(narrow(x.view(), batch, at, 1), time, length - 1, length, -1);
    copy_elements(from, narrow(narrow(out.view(), batch, at, 1), time, 0, length));
  }
  out.store();
}

}  // namespace

static const Register reverse_sequence{{
    .name = "reverse_sequence",
    .doc = "In row i of the batch axis, the first lengths[i] elements of the time axis are "
           "reversed.",
    .operands = {{"x"}, {"lengths", types(ElementType::i64)}},
    .attributes = {{"batch_axis", 1}, {"time_axis", 0}},
    .infer =
        [](Infer& c) {
          const int batch = c.axis("batch_axis", c.rank(0));
          const int time = c.axis("time_axis", c.rank(0));
          c.check(batch != time, "batch_axis and time_axis are both {}", batch);
          c.check(c.rank(1) == 1, "lengths have rank {}, expected 1", c.rank(1));
          c.require_equal(c.dim(1, 0), c.dim(0, batch), "number of lengths");
          c.result(c.element(0), c.dims(0));
        },
    .eval = eval_reverse_sequence,
    .map =
        [](auto& m) {
          const int time = m.axis("time_axis", m.rank(0));
          auto row = m.coordinates(1);
          row[0] = m.index(m.axis("batch_axis", m.rank(0)));
          auto from = m.indices();
          from[static_cast<size_t>(time)] = m.element(1, row) - 1 - m.index(time);
          m.read(0, from, {from[static_cast<size_t>(time)]});
          m.read(0, m.indices());
        },
}};

}  // namespace lathe
