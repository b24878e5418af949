// SPDX-License-Identifier: MIT
// The weights are those of matmul_n_bits: b is u8 [n, blocks, block_size · bits / 8].
#include "base/thread_pool.h"
#include "ops/support/convolution.h"
#include "ops/support/n_bits_weights.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

void infer_gather_n_bits(Infer& c) {
  infer_n_bits_weights(c);
  std::vector<Dim> dims = c.dims(0);
  dims.push_back(c.integer("k"));
  c.result(ElementType::f32, std::move(dims));
}

void evaluate_gather_n_bits(Evaluation& c) {
  const int64_t k = c.integer("k");
  const int64_t n = c.integer("n");
  const NBitsWeights weights(c, k, n);
  const ScratchArray<int64_t> indices(c.in(0).count());
  load_values(c, 0, 0, indices);
  for (const int64_t index : indices) {
    c.check(index >= -n && index < n, "index {} is out of range for {} columns", index, n);
  }
  with_dense_result(c, [&](const TensorView& y) {
    parallel_for(c.pool, static_cast<int64_t>(indices.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t index = indices[static_cast<size_t>(i)];
        weights.dequantise(index < 0 ? index + n : index, 0, k, y.as<float>() + i * k);
      }
    });
  });
}

}  // namespace

static const Register gather_n_bits{{
    .name = "gather_n_bits",
    .doc = "Columns of the weights of matmul_n_bits at the indices, dequantised.",
    .operands = {{"indices", kIndices},
                 {"b", types(ElementType::u8)},
                 {"scales", kFloats},
                 {"zero_points", kFloats | types(ElementType::u8), Arity::optional}},
    .attributes = {{"k", AttributeKind::integer},
                   {"n", AttributeKind::integer},
                   {"bits", 4},
                   {"block_size", AttributeKind::integer}},
    .infer = infer_gather_n_bits,
    .eval = evaluate_gather_n_bits,
    .tokens =
        [](const TokenStep& s) {
          return s.axis(0) ? TokenAxis{s.axis(0)} : not_token_wise("the weights have a token axis");
        },
}};

}  // namespace lathe
