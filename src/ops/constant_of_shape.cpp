// SPDX-License-Identifier: MIT
#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/symbolic.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_constant_of_shape(Infer& c) {
  if (c.has(1)) c.require_equal(element_count(c.dims(1)), 1, "number of values");
  const ElementType element = c.has(1) ? c.element(1) : ElementType::f32;
  const std::vector<Dim>* shape = c.elements(0);
  if (shape == nullptr) {
    auto dims = found_dims(c, known_length(c, 0), "shape");
    return c.result(dims ? Type::tensor(element, std::move(*dims)) : Type::unranked(element));
  }
  for (const Dim& extent : *shape) {
    c.check(!extent.is_constant() || *extent.constant() >= 0, "shape value {} is negative",
            extent.to_string());
  }
  c.result(element, *shape);
  const std::optional<int64_t> count = element_count(*shape).constant();
  if (c.elements(1) != nullptr && count && *count <= kMaxSymbolicElements) {
    c.result_elements(std::vector<Dim>(static_cast<size_t>(*count), c.elements(1)->front()));
  }
}

}  // namespace

static const Register constant_of_shape{{
    .name = "constant_of_shape",
    .doc = "A tensor of shape `shape` filled with one value (f32 0 if absent).",
    .operands = {{"shape", kIndices}, {"value", kAnyType, Arity::optional}},
    .on_host = {0},
    .infer = infer_constant_of_shape,
    .eval =
        [](Evaluation& c) {
          const Dims dims = c.values(0);
          for (const int64_t extent : dims) c.check(extent >= 0, "size {} is negative", extent);
          const Tensor zero(ElementType::f32, {});
          const UnpackedOperand value(c.has(1) ? c.in(1) : zero.view());
          c.check(value.view().count() == 1, "{} values, expected one", value.view().count());
          const UnpackedResult out(c.out(0, dims));
          fill_elements(value.view(), out.view());
          out.store();
        },
}};

}  // namespace lathe
