// SPDX-License-Identifier: MIT
#include "ops/support/convert_operands.h"
#include "ops/support/requirements.h"
#include "ops/support/views.h"
#include "ops/support/window.h"

namespace lathe {
namespace {

// The dims of the input of a pooling whose output has these.
template <class Reader, class T>
std::vector<T> unpooled(const Reader& c, std::vector<T> dims) {
  const size_t spatial = dims.size() - 2;
  const Integers& kernel = c.integers("kernel_shape");
  const Integers strides = window_list(c, "strides", spatial, 1);
  const Integers pads = window_list(c, "pads", 2 * spatial, 0);
  for (size_t i = 0; i < spatial; ++i) {
    T& dim = dims[i + 2];
    dim = (dim - 1) * strides[i] + (kernel[i] - pads[i] - pads[i + spatial]);
  }
  return dims;
}

void infer_max_unpool(Infer& c) {
  const auto spatial = static_cast<size_t>(require_rank(c, 0, 3, kMaxRank) - 2);
  const Integers& kernel = c.integers("kernel_shape");
  c.check(kernel.size() == spatial, "kernel_shape has {} entries, expected {}", kernel.size(),
          spatial);
  require_rank(c, 1, c.rank(0));
  for (int axis = 0; axis < c.rank(0); ++axis) {
    c.require_equal(c.dim(0, axis), c.dim(1, axis), "dims of x and indices");
  }
  std::vector<Dim> dims = c.dims(0);
  if (c.has(2)) {
    dims = dims_of_elements(c, 2, 0, c.rank(0), "unpooled");
  } else {
    dims = unpooled(c, std::move(dims));
  }
  c.result(c.element(0), std::move(dims));
}

// Indices count elements of the pooling's own input, of which output_shape may be an enlargement.
void eval_max_unpool(Evaluation& c) {
  const UnpackedOperand x(c.in(0));
  const Dims natural = unpooled(c, dims_of(x.view()));
  const Dims dims = c.has(2) ? c.values(2) : natural;
  c.check(dims.size() == natural.size(), "output_shape has {} entries, expected {}", dims.size(),
          natural.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    c.check(dims[i] >= natural[i], "output_shape has {} for axis {}, expected at least {}", dims[i],
            i, natural[i]);
  }
  const std::vector<int64_t> indices = c.values(1);
  const Dims natural_strides = Tensor::dense_strides(natural);
  int64_t count = 1;
  for (const int64_t dim : natural) count *= dim;
  const UnpackedResult out(c.out(0, dims));
  clear_elements(out.view());
  with_raw_type(x.view().type, [&]<class T>(T*) {
    size_t next = 0;
    for_each_index(x.view().extents(), [&](std::span<const int64_t> at) {
      int64_t index = indices[next++];
      c.check(index >= 0 && index < count, "index {} is outside [0, {})", index, count);
      int64_t offset = 0;
      for (size_t i = 0; i < natural.size(); ++i) {
        offset += index / natural_strides[i] * out.view().strides[i];
        index %= natural_strides[i];
      }
      out.view().as<T>()[offset] = x.view().as<T>()[offset_of(x.view(), at)];
    });
  });
  out.store();
}

}  // namespace

static const Register max_unpool{{
    .name = "max_unpool",
    .doc = "Puts each element of x where `indices` (the second result of max_pool) state; zeros "
           "elsewhere.",
    .operands = {{"x", kFloats},
                 {"indices", types(ElementType::i64)},
                 {"output_shape", types(ElementType::i64), Arity::optional}},
    .attributes = {{"kernel_shape", AttributeKind::integers},
                   {"pads", AttributeKind::integers, false},
                   {"strides", AttributeKind::integers, false}},
    .on_host = {2},
    .infer = infer_max_unpool,
    .eval = eval_max_unpool,
}};

}  // namespace lathe
