// SPDX-License-Identifier: MIT
#include "ops/rotation.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/evaluation.h"
#include "ops/product.h"
#include "ops/quantization.h"

namespace lathe {

Rotation::Rotation(const TensorView& cos, const TensorView& sin, bool interleaved)
    : half_(cos.dims[static_cast<size_t>(cos.rank - 1)]),
      cos_(float_values(cos)),
      sin_(float_values(sin)),
      interleaved_(interleaved) {
  check(cos_.size() == sin_.size(), ErrorKind::invalid_argument,
        "the rotary tables have {} and {} elements, expected as many", cos_.size(), sin_.size());
}

void Rotation::turn(std::span<const float> head, int64_t position, std::span<float> turned) const {
  std::copy(head.begin(), head.end(), turned.begin());
  for (int64_t i = 0; i < half_; ++i) {
    const auto x = static_cast<size_t>(interleaved_ ? 2 * i : i);
    const auto y = static_cast<size_t>(interleaved_ ? 2 * i + 1 : half_ + i);
    const float cosine = cos_[static_cast<size_t>(position * half_ + i)];
    const float sine = sin_[static_cast<size_t>(position * half_ + i)];
    turned[x] = head[x] * cosine - head[y] * sine;
    turned[y] = head[x] * sine + head[y] * cosine;
  }
}

void Rotation::run(const TensorView& from, const TensorView& to, std::span<const int64_t> positions,
                   ThreadPool* pool) const {
  const int64_t size = from.dims[3];
  const int64_t rows = from.dims[2];
  check(2 * half_ <= size, ErrorKind::invalid_argument,
        "the rotary tables have {} columns, too many for heads of {}", half_, size);
  const int64_t table = half_ == 0 ? 0 : static_cast<int64_t>(cos_.size()) / half_;
  for (const int64_t position : positions) {
    check(half_ == 0 || (position >= 0 && position < table), ErrorKind::invalid_argument,
          "position {} lies outside the rotary tables of {} rows", position, table);
  }
  parallel_for(pool, from.dims[0] * from.dims[1] * rows, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> head(static_cast<size_t>(size));
    std::vector<float> turned(static_cast<size_t>(size));
    for (int64_t at = begin; at < end; ++at) {
      const int64_t b = at / rows / from.dims[1];
      const std::array<int64_t, 4> index = {b, at / rows % from.dims[1], at % rows, 0};
      load_run({from.type, from.data, 0, 0, 0}, offset_of(from, index), from.strides[3], size,
               head.data());
      turn(head, positions[static_cast<size_t>(b * rows + at % rows)], turned);
      store_block<float>({to.type, to.data, offset_of(to, index), 0, to.strides[3]},
                         {0, 1, 0, size}, turned.data(), 0);
    }
  });
}

}  // namespace lathe
