// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/index_map.h"
#include "ops/support/convert_operands.h"
#include "ops/support/indices.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// Row i keeps columns from i + k on (upper) or up to i + k (lower); others are zero.
void eval_trilu(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const UnpackedResult out(c.out(0, x.view().extents()));
  const TensorView& view = out.view();
  copy_elements(x.view(), view);
  const int rows = view.rank - 2;
  const int columns = view.rank - 1;
  const int64_t width = view.dims[columns];
  const int64_t height = view.dims[rows];
  const bool upper = c.boolean("upper");
  const int64_t given = c.has(1) ? single_value(c, 1) : 0;
  const int64_t k = std::clamp(given, -height - 1, width + 1);
  const Tensor zero(view.type, {});
  for (int64_t i = 0; i < height; ++i) {
    const int64_t from = upper ? 0 : std::clamp<int64_t>(i + k + 1, 0, width);
    const int64_t to = upper ? std::clamp<int64_t>(i + k, 0, width) : width;
    const TensorView row = narrow(view, rows, i, 1);
    fill_elements(zero.view(), narrow(row, columns, from, to - from));
  }
  out.store();
}

}  // namespace

static const Register trilu{{
    .name = "trilu",
    .doc = "The upper or lower triangle of the last two axes, bounded by diagonal k; else zero.",
    .operands = {{"x"}, {"k", types(ElementType::i64), Arity::optional}},
    .attributes = {{"upper", Attribute(true)}},
    .on_host = {1},
    .infer =
        [](Infer& c) {
          c.check(c.rank(0) >= 2, "x has rank {}, expected at least 2", c.rank(0));
          if (c.has(1)) c.require_equal(element_count(c.dims(1)), 1, "number of values of k");
          c.result(c.element(0), c.dims(0));
        },
    .eval = eval_trilu,
    .map =
        [](auto& m) {
          using Index = typename std::remove_reference_t<decltype(m)>::Index;
          const int rank = m.rank(0);
          const Index k = m.has(1) ? m.element(1, m.coordinates(1)) : Index(0);
          const Index above = m.index(rank - 1) - m.index(rank - 2) - k;
          m.read(0, m.indices(), {m.boolean("upper") ? above : Index(0) - above});
          m.read_zero();
        },
}};

}  // namespace lathe
