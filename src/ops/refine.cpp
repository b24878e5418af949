// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/index_map.h"

namespace lathe {

static const Register refine{{
    .name = "refine",
    .doc = "The operand with these dims: known dims are required, data-dependent ones defined.",
    .operands = {{"x"}},
    .attributes = {{"dims", AttributeKind::dims}},
    .infer =
        [](Infer& c) {
          const std::vector<Dim>& dims = c.dims_attribute("dims");
          c.check(static_cast<int>(dims.size()) == c.rank(0),
                  "got {} dims for an operand of rank {}", dims.size(), c.rank(0));
          for (size_t axis = 0; axis < dims.size(); ++axis) {
            bool defined_here = false;
            for (const SymbolRef& symbol : c.instruction().found()) {
              defined_here |= dims[axis] == Dim(symbol);
            }
            if (!defined_here) c.require_equal(c.dims(0)[axis], dims[axis], "size");
          }
          c.result(c.element(0), dims);
          if (c.elements(0) != nullptr) c.result_elements(*c.elements(0));
        },
    .eval = [](Evaluation& c) { copy_elements(c.in(0), c.out(0, c.in(0).extents())); },
    .map = [](auto& m) { m.read(0, m.indices()); },
    .view =
        [](ViewRequest& v) {
          v.result = v.operand;
          return true;
        },
}};

}  // namespace lathe
