// SPDX-License-Identifier: MIT
#include "tests/support/guarded.h"

#include <algorithm>

#include "ops/evaluation.h"

namespace lathe::test {
namespace {

constexpr std::byte kPattern{0xA5};
constexpr int64_t kMargin = 5;  // units before the first and after the last element
const std::string kPatternText = "outside of the tensor";

}  // namespace

Guarded::Guarded(ElementType type, const Dims& dims, Layout layout) {
  view_ = Tensor(type, dims, Tensor::dense_strides(dims), &view_, nullptr).view();
  const bool packed = is_packed(type);
  const int64_t count = element_count(dims);
  int64_t span = packed ? bytes_for(type, count) : count;  // units from first to last element
  offset_ = kMargin;
  if (layout == Layout::odd && !packed && count > 0) {
    int64_t stride = 2;
    span = 1;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      view_.strides[axis] = stride;
      span += (dims[axis] - 1) * stride;
      stride = stride * dims[axis] + 1;
    }
    if (!dims.empty()) {
      offset_ += (dims[0] - 1) * view_.strides[0];
      view_.strides[0] = -view_.strides[0];
    }
  }
  own_.assign(static_cast<size_t>(span + 2 * kMargin), false);
  if (packed) {
    std::fill_n(own_.begin() + kMargin, span, true);
  } else {
    for_each_index(view_.extents(), [&](std::span<const int64_t> index) {
      own_[static_cast<size_t>(offset_ + offset_of(view_, index))] = true;
    });
  }
  if (type == ElementType::string) {
    strings_ = std::make_shared<std::vector<std::string>>(own_.size(), kPatternText);
    view_.data = strings_->data() + offset_;
  } else {
    unit_ = packed ? 1 : info(type).bits / 8;
    bytes_ = std::make_shared<std::vector<std::byte>>(own_.size() * unit_, kPattern);
    view_.data = bytes_->data() + offset_ * unit_;
  }
}

Tensor Guarded::tensor() const {
  const std::shared_ptr<void> owner =
      strings_ != nullptr ? std::shared_ptr<void>(strings_) : std::shared_ptr<void>(bytes_);
  return {view_.type, Dims(view_.extents().begin(), view_.extents().end()),
          Dims(view_.strides.begin(), view_.strides.begin() + view_.rank), view_.data, owner};
}

bool Guarded::intact() const {
  for (size_t i = 0; i < own_.size(); ++i) {
    if (own_[i]) continue;
    if (strings_ != nullptr) {
      if ((*strings_)[i] != kPatternText) return false;
    } else {
      const auto* begin = bytes_->data() + i * unit_;
      if (!std::all_of(begin, begin + unit_, [](std::byte b) { return b == kPattern; })) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace lathe::test
