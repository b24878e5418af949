// SPDX-License-Identifier: MIT
// The caller's views of memory.
#pragma once

#include <cstddef>
#include <type_traits>

#include "base/error_reason.h"
#include "capi/handles.h"

namespace lathe::capi {

// The caller's array; its entries may be longer than this version's.
template <class View>
class Views {
 public:
  Views(View* first, size_t count, std::string_view what) : first_(first), count_(count) {
    check(first != nullptr || count == 0, ErrorKind::invalid_argument, "argument '{}' is NULL",
          what);
    if (count == 0) return;
    size_ = first->size;
    check(size_ >= sizeof(lathe_view) && size_ <= kMostSize && size_ % alignof(View) == 0,
          ErrorKind::invalid_argument, "{}[0].size is {}: set it to sizeof(lathe_view)", what,
          size_);
  }
  size_t count() const { return count_; }
  View& operator[](size_t i) const {
    using Byte =
        std::conditional_t<std::is_same_v<View, const lathe_view>, const std::byte, std::byte>;
    return *reinterpret_cast<View*>(reinterpret_cast<Byte*>(first_) + i * size_);
  }

 private:
  static constexpr size_t kMostSize = 4096;
  View* first_;
  size_t count_;
  size_t size_ = sizeof(lathe_view);
};

// The tensor of entry `index` of the array `what`; sets its rank's dims and strides only.
void set_view(const lathe_view& given, TensorView& out, const char* what, size_t index);

}  // namespace lathe::capi
