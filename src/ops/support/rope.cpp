// SPDX-License-Identifier: MIT
#include "ops/support/rope.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/evaluation.h"
#include "ops/support/blocked_gemm.h"
#include "ops/support/convolution.h"

namespace lathe {

Rotation::Rotation(const TensorView& cos, const TensorView& sin, bool interleaved)
    : half_(cos.dims[static_cast<size_t>(cos.rank - 1)]),
      cos_(cos),
      sin_(sin),
      interleaved_(interleaved) {
  if (!cos.is_dense()) cos_ = (dense_cos_ = dense_tensor(cos)).view();
  if (!sin.is_dense()) sin_ = (dense_sin_ = dense_tensor(sin)).view();
  check(cos_.count() == sin_.count(), ErrorKind::invalid_argument,
        "the rotary tables have {} and {} elements, expected as many", cos_.count(), sin_.count());
}

// One head at a time. Of the tables, which may be long, only the rows in use are read.
class Rotation::Turn {
 public:
  Turn(const Rotation& rotation, int64_t size) : r_(rotation) {
    const auto own = static_cast<size_t>(size), half = static_cast<size_t>(r_.half_);
    thread_local std::vector<float> memory;
    memory.resize(2 * own + 2 * half);
    const std::span<float> all(memory);
    head = all.first(own);
    turned = all.subspan(own, own);
    cosines_ = all.subspan(2 * own, half);
    sines_ = all.last(half);
  }

  void run(int64_t position) {
    load_run({r_.cos_.type, r_.cos_.data, 0, 0, 0}, position * r_.half_, 1, r_.half_,
             cosines_.data());
    load_run({r_.sin_.type, r_.sin_.data, 0, 0, 0}, position * r_.half_, 1, r_.half_,
             sines_.data());
    std::ranges::copy(head, turned.begin());
    const size_t half = cosines_.size();
    for (size_t i = 0; i < half; ++i) {
      const size_t x = r_.interleaved_ ? 2 * i : i;
      const size_t y = r_.interleaved_ ? 2 * i + 1 : half + i;
      turned[x] = head[x] * cosines_[i] - head[y] * sines_[i];
      turned[y] = head[x] * sines_[i] + head[y] * cosines_[i];
    }
  }

  std::span<float> head;
  std::span<float> turned;

 private:
  const Rotation& r_;
  std::span<float> cosines_;
  std::span<float> sines_;
};

void Rotation::run(const TensorView& from, const TensorView& to, std::span<const int64_t> positions,
                   ThreadPool* pool) const {
  const int64_t size = from.dims[3];
  const int64_t rows = from.dims[2];
  check(2 * half_ <= size, ErrorKind::invalid_argument,
        "the rotary tables have {} columns, too many for heads of {}", half_, size);
  const int64_t table = half_ == 0 ? 0 : cos_.count() / half_;
  for (const int64_t position : positions) {
    check(half_ == 0 || (position >= 0 && position < table), ErrorKind::invalid_argument,
          "position {} lies outside the rotary tables of {} rows", position, table);
  }
  parallel_for(pool, from.dims[0] * from.dims[1] * rows, 64, [&](int64_t begin, int64_t end) {
    Turn turn(*this, size);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t b = at / rows / from.dims[1];
      const std::array<int64_t, 4> index = {b, at / rows % from.dims[1], at % rows, 0};
      load_run({from.type, from.data, 0, 0, 0}, offset_of(from, index), from.strides[3], size,
               turn.head.data());
      turn.run(positions[static_cast<size_t>(b * rows + at % rows)]);
      store_block<float>({to.type, to.data, offset_of(to, index), 0, to.strides[3]},
                         {0, 1, 0, size}, turn.turned.data(), 0);
    }
  });
}

}  // namespace lathe
