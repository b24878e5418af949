// SPDX-License-Identifier: MIT
#include "ops/support/sdpa.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ops/support/blocked_gemm.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr int64_t kQueries = 64;  // query tokens of one task

// Axes 2 and 3 of [batch, heads, rows, columns] at one batch and head.
MatrixView matrix(const TensorView& view, int64_t batch, int64_t head) {
  return {view.type, view.data, batch * view.strides[0] + head * view.strides[1], view.strides[2],
          view.strides[3]};
}

template <class T>
class Task {
 public:
  Task(const Attend& attend, int64_t batch, int64_t head, int64_t query)
      : p_(attend),
        batch_(batch),
        head_(head),
        query_(query),
        rows_(std::min(kQueries, attend.q.dims[2] - query)),
        length_(attend.length[static_cast<size_t>(batch)]),
        keys_(attend.kept == AttentionScores::none ? std::min(length_, attend.k.dims[2])
                                                   : attend.k.dims[2]),
        key_head_(head / (attend.q.dims[1] / attend.k.dims[1])) {}

  void run() {
    thread_local std::vector<T> memory;
    scores_ = first_of(memory, rows_ * keys_);
    std::ranges::fill(scores_, T{});
    const MatrixView scores{sum_type<T>(), scores_.data(), 0, keys_, 1};
    MatrixView keys = matrix(p_.k, batch_, key_head_);
    std::swap(keys.row_stride, keys.column_stride);
    MatrixGemm<T>(rows_of(p_.q), keys, scores, rows_, keys_, p_.q.dims[3]).run(nullptr);
    for (T& score : scores_) score *= static_cast<T>(p_.scale);
    keep(AttentionScores::raw);
    if (p_.softcap > 0) {
      const T cap = static_cast<T>(p_.softcap);
      for (T& score : scores_) score = cap * std::tanh(score / cap);
    }
    keep(AttentionScores::capped);
    for (int64_t row = 0; row < rows_; ++row) add_bias(row);
    keep(AttentionScores::biased);
    for (int64_t row = 0; row < rows_; ++row) softmax(row);
    keep(AttentionScores::weights);
    const MatrixView values = matrix(p_.v, batch_, key_head_);
    MatrixGemm<T>(scores, values, rows_of(p_.y), rows_, p_.v.dims[3], keys_).run(nullptr);
  }

 private:
  // Memory reused by consecutive tasks; resize() grows it geometrically as keys are appended.
  static std::span<T> first_of(std::vector<T>& memory, int64_t count) {
    const auto size = static_cast<size_t>(count);
    if (memory.size() < size) memory.resize(std::bit_ceil(size));
    return std::span(memory).first(size);
  }

  MatrixView rows_of(const TensorView& view) const {
    MatrixView rows = matrix(view, batch_, head_);
    rows.offset += query_ * rows.row_stride;
    return rows;
  }

  void keep(AttentionScores stage) const {
    if (p_.kept != stage) return;
    store_block(rows_of(p_.scores), {0, rows_, 0, keys_}, scores_.data(), keys_);
  }

  bool in_window(int64_t row, int64_t key) const {
    const int64_t distance = p_.first[static_cast<size_t>(batch_)] + query_ + row - key;
    return key < length_ && !(p_.causal && distance < 0) && !(p_.left >= 0 && distance > p_.left) &&
           !(p_.right >= 0 && -distance > p_.right);
  }

  void add_bias(int64_t row) {
    T* score = scores_.data() + row * keys_;
    constexpr T kMasked = -std::numeric_limits<T>::infinity();
    thread_local std::vector<T> memory;
    const std::span<T> added = first_of(memory, keys_);
    std::ranges::fill(added, T{});
    if (p_.bias) {
      const TensorView& bias = *p_.bias;
      const int64_t given = bias.dims[3] == 1 ? keys_ : std::min(keys_, bias.dims[3]);
      const int64_t offset =
          batch_ * bias.strides[0] + head_ * bias.strides[1] + (query_ + row) * bias.strides[2];
      std::fill(added.begin() + given, added.end(), kMasked);
      if (bias.type == ElementType::boolean) {
        const auto* allowed = static_cast<const uint8_t*>(bias.data) + offset;
        for (int64_t key = 0; key < given; ++key) {
          if (allowed[key * bias.strides[3]] == 0) added[static_cast<size_t>(key)] = kMasked;
        }
      } else {
        load_run({bias.type, bias.data, 0, 0, 0}, offset, bias.strides[3], given, added.data());
      }
    }
    if (!p_.slopes.empty()) {
      const T slope = static_cast<T>(p_.slopes[static_cast<size_t>(head_)]);
      const int64_t own = p_.first[static_cast<size_t>(batch_)] + query_ + row;
      for (int64_t key = 0; key < keys_; ++key) {
        added[static_cast<size_t>(key)] += slope * static_cast<T>(key - own);
      }
    }
    for (int64_t key = 0; key < keys_; ++key) {
      const T more = in_window(row, key) ? added[static_cast<size_t>(key)] : kMasked;
      // Masked stays masked for any score: inf - inf is NaN.
      score[key] = more == kMasked ? kMasked : score[key] + more;
    }
  }

  void softmax(int64_t row) {
    T* score = scores_.data() + row * keys_;
    constexpr T kMasked = -std::numeric_limits<T>::infinity();
    T largest = kMasked;
    for (int64_t key = 0; key < keys_; ++key) {
      if (!(score[key] <= largest)) largest = score[key];
    }
    if (largest == kMasked) {
      std::fill(score, score + keys_, T{});
      return;
    }
    T sum = 0;
    if (!p_.sinks.empty()) {
      const T sink = static_cast<T>(p_.sinks[static_cast<size_t>(head_)]);
      largest = std::max(largest, sink);
      sum = std::exp(sink - largest);
    }
    for (int64_t key = 0; key < keys_; ++key) {
      score[key] = std::exp(score[key] - largest);
      sum += score[key];
    }
    for (int64_t key = 0; key < keys_; ++key) score[key] /= sum;
  }

  const Attend& p_;
  const int64_t batch_;
  const int64_t head_;
  const int64_t query_;
  const int64_t rows_;
  const int64_t length_;
  const int64_t keys_;  // keys with scores
  const int64_t key_head_;
  std::span<T> scores_;
};

}  // namespace

void Attend::round_to_bf16() {
  const std::array<TensorView*, 3> views{&q, &k, &v};
  for (size_t i = 0; i < views.size(); ++i) {
    const TensorView& from = *views[i];
    const ScratchTensor dense(from.type, from.extents());
    copy_elements(from, dense.view());
    memory[i] = ScratchTensor(ElementType::bf16, from.extents());
    convert(ElementType::bf16, memory[i].view().data, from.type, dense.view().data, dense.count());
    *views[i] = memory[i].view();
  }
}

void Attend::run(ThreadPool* pool) const {
  if (y.count() == 0 && scores.count() == 0) return;
  const int64_t blocks = (q.dims[2] - 1) / kQueries + 1;
  const int64_t heads = q.dims[1];
  parallel_for(pool, q.dims[0] * heads * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t batch = at / blocks / heads;
      const int64_t head = at / blocks % heads;
      const int64_t query = at % blocks * kQueries;
      if (q.type == ElementType::f64) {
        Task<double>(*this, batch, head, query).run();
      } else {
        Task<float>(*this, batch, head, query).run();
      }
    }
  });
}

TensorView split_heads(const TensorView& view, int64_t heads) {
  TensorView out = view;
  const int64_t size = heads == 0 ? 0 : view.dims[2] / heads;
  out.rank = 4;
  out.dims = {view.dims[0], heads, view.dims[1], size};
  out.strides = {view.strides[0], size * view.strides[2], view.strides[1], view.strides[2]};
  return out;
}

TensorView slice_heads(const TensorView& view, int64_t first, int64_t count) {
  TensorView out = view;
  out.dims[1] = count;
  out.data =
      static_cast<std::byte*>(view.data) + first * view.strides[1] * (info(view.type).bits / 8);
  return out;
}

void append_to_cache(const TensorView* past, const TensorView& added, const TensorView& present) {
  TensorView part = present;
  if (past != nullptr) {
    part.dims[2] = past->dims[2];
    if (past->data != present.data) copy_elements(*past, part);
    part.data = static_cast<std::byte*>(present.data) +
                past->dims[2] * present.strides[2] * (info(present.type).bits / 8);
  }
  part.dims[2] = added.dims[2];
  copy_elements(added, part);
}

TensorView broadcast_to_rank4(const TensorView& view) {
  TensorView out = view;
  out.rank = 4;
  for (int axis = 0; axis < 4; ++axis) {
    const int own = axis - (4 - view.rank);
    const bool there = own >= 0;
    const auto at = static_cast<size_t>(axis);
    out.dims[at] = there ? view.dims[static_cast<size_t>(own)] : 1;
    out.strides[at] = there && out.dims[at] != 1 ? view.strides[static_cast<size_t>(own)] : 0;
  }
  return out;
}

}  // namespace lathe
