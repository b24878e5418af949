// SPDX-License-Identifier: MIT
#include "ops/support/rope.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ops/op_call.h"
#include "ops/support/blocked_gemm.h"
#include "ops/support/convolution.h"
#include "ops/support/sdpa.h"

namespace lathe {

RotaryEmbedding::RotaryEmbedding(const TensorView& cos, const TensorView& sin, bool interleaved,
                                 RotateRow rotate)
    : half_(cos.dims[static_cast<size_t>(cos.rank - 1)]),
      cos_(cos),
      sin_(sin),
      interleaved_(interleaved),
      rotate_(rotate) {
  if (!cos.is_dense()) cos_ = (dense_cos_ = dense_tensor(cos)).view();
  if (!sin.is_dense()) sin_ = (dense_sin_ = dense_tensor(sin)).view();
  check(cos_.count() == sin_.count(), ErrorKind::invalid_argument,
        "cos and sin have {} and {} elements, expected equal numbers", cos_.count(), sin_.count());
}

// Rotates one head at a time. Reads only the rows of cos and sin in use: the tables may be long.
class RotaryEmbedding::HeadRotation {
 public:
  HeadRotation(const RotaryEmbedding& rotation, int64_t size) : r_(rotation) {
    const auto own = static_cast<size_t>(size), half = static_cast<size_t>(r_.half_);
    thread_local std::vector<float> memory;
    memory.resize(2 * own + 2 * half);
    const std::span<float> all(memory);
    head = all.first(own);
    rotated = all.subspan(own, own);
    cosines_ = all.subspan(2 * own, half);
    sines_ = all.last(half);
  }

  void run(int64_t position) {
    load_run({r_.cos_.type, r_.cos_.data, 0, 0, 0}, position * r_.half_, 1, r_.half_,
             cosines_.data());
    load_run({r_.sin_.type, r_.sin_.data, 0, 0, 0}, position * r_.half_, 1, r_.half_,
             sines_.data());
    std::ranges::copy(head, rotated.begin());
    const size_t half = cosines_.size();
    for (size_t i = 0; i < half; ++i) {
      const size_t x = r_.interleaved_ ? 2 * i : i;
      const size_t y = r_.interleaved_ ? 2 * i + 1 : half + i;
      rotated[x] = head[x] * cosines_[i] - head[y] * sines_[i];
      rotated[y] = head[x] * sines_[i] + head[y] * cosines_[i];
    }
  }

  std::span<float> head;
  std::span<float> rotated;

 private:
  const RotaryEmbedding& r_;
  std::span<float> cosines_;
  std::span<float> sines_;
};

void RotaryEmbedding::run(const TensorView& from, const TensorView& to,
                          std::span<const int64_t> positions, ThreadPool* pool) const {
  const int64_t size = from.dims[3];
  const int64_t rows = from.dims[2];
  check(2 * half_ <= size, ErrorKind::invalid_argument,
        "cos and sin have {} columns, too many for heads of size {}", half_, size);
  const int64_t table = half_ == 0 ? 0 : cos_.count() / half_;
  for (const int64_t position : positions) {
    check(half_ == 0 || (position >= 0 && position < table), ErrorKind::invalid_argument,
          "position {} is out of range for cos and sin of {} positions", position, table);
  }
  const bool in_place =
      rotate_ != nullptr && from.strides[3] == 1 && to.strides[3] == 1 &&
      std::ranges::all_of(std::array{from.type, to.type, cos_.type, sin_.type},
                          [](ElementType type) { return type == ElementType::f32; });
  parallel_for(pool, from.dims[0] * from.dims[1] * rows, 64, [&](int64_t begin, int64_t end) {
    HeadRotation rotation(*this, size);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t b = at / rows / from.dims[1];
      const std::array<int64_t, 4> index = {b, at / rows % from.dims[1], at % rows, 0};
      if (in_place) {
        const int64_t angles = positions[static_cast<size_t>(b * rows + at % rows)] * half_;
        rotate_(from.as<float>() + offset_of(from, index), cos_.as<float>() + angles,
                sin_.as<float>() + angles, half_, size, to.as<float>() + offset_of(to, index));
        continue;
      }
      load_run({from.type, from.data, 0, 0, 0}, offset_of(from, index), from.strides[3], size,
               rotation.head.data());
      rotation.run(positions[static_cast<size_t>(b * rows + at % rows)]);
      store_block<float>({to.type, to.data, offset_of(to, index), 0, to.strides[3]},
                         {0, 1, 0, size}, rotation.rotated.data(), 0);
    }
  });
}

void rotate_heads(const OpCall& c, int64_t num_heads, bool interleaved, RotateRow rotate) {
  const bool flat = c.in(0).rank == 3;
  const TensorView x = flat ? split_heads(c.in(0), num_heads) : c.in(0);
  const TensorView y = flat ? split_heads(c.out(), num_heads) : c.out();
  const int64_t count = x.dims[0] * x.dims[2];
  const ScratchArray<int64_t> positions(count);
  const int64_t given = c.has(3) ? c.in(3).count() : 0;
  const bool offset = c.has(3) && c.in(3).rank == 1;
  c.check(!c.has(3) || given == (offset ? 1 : count), "got {} positions for {} tokens", given,
          count);
  int64_t first = 0;
  if (offset) load_values(c.in(3), 0, {&first, 1});
  for (int64_t row = 0; row < count; ++row) {
    positions[static_cast<size_t>(row)] = offset ? first + row % x.dims[2] : row;
  }
  if (c.has(3) && !offset) load_values(c.in(3), 0, positions);
  RotaryEmbedding(c.in(1), c.in(2), interleaved, rotate).run(x, y, positions, c.pool());
}

}  // namespace lathe
