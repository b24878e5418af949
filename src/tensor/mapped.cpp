// SPDX-License-Identifier: MIT
#include "tensor/mapped.h"

#include "base/file_map.h"

namespace lathe {

void release_mapped(const Tensor& tensor) {
  if (tensor.type() == ElementType::string || tensor.count() == 0) return;
  int64_t last = 0;  // the largest distance of an element
  for (size_t axis = 0; axis < tensor.dims().size(); ++axis) {
    if (tensor.strides()[axis] < 0) return;
    last += (tensor.dims()[axis] - 1) * tensor.strides()[axis];
  }
  release_mapped({static_cast<const std::byte*>(tensor.data()),
                  static_cast<size_t>(bytes_for(tensor.type(), last + 1))});
}

}  // namespace lathe
