// SPDX-License-Identifier: MIT
#include "ops/interpret/access.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/interpret/kernels.h"
#include "tensor/convert.h"

namespace lathe::interpret {
namespace {

// Calls f(position in the chunk, offset in elements, length, stride) for every run of the last
// axis.
template <class F>
void for_runs(const Layout& layout, const Access& access, int64_t first, int64_t count, F&& f) {
  const int last = layout.rank - 1;
  std::array<int64_t, kMaxRank> index{};
  int64_t offset = 0;
  for (int axis = last; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    index[a] = first % layout.dims[a];
    first /= layout.dims[a];
    offset += index[a] * access.strides[a];
  }
  const auto inner = static_cast<size_t>(last);
  for (int64_t done = 0; done < count;) {
    const int64_t length = std::min(count - done, layout.dims[inner] - index[inner]);
    f(done, offset, length, access.strides[inner]);
    done += length;
    offset -= index[inner] * access.strides[inner];
    index[inner] = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      offset += access.strides[a];
      if (++index[a] < layout.dims[a]) break;
      offset -= index[a] * access.strides[a];
      index[a] = 0;
    }
  }
}

// Copies elements as opaque bytes: memory may have any alignment.
template <size_t kBytes>
void gather(const Layout& layout, const Access& access, int64_t first, int64_t count,
            std::byte* to) {
  for_runs(layout, access, first, count,
           [&](int64_t position, int64_t offset, int64_t length, int64_t stride) {
             const std::byte* from = access.data + offset * static_cast<int64_t>(kBytes);
             std::byte* out = to + position * static_cast<int64_t>(kBytes);
             if (stride == 1) {
               std::memcpy(out, from, static_cast<size_t>(length) * kBytes);
               return;
             }
             const int64_t step = stride * static_cast<int64_t>(kBytes);
             for (int64_t i = 0; i < length; ++i, from += step, out += kBytes) {
               std::memcpy(out, from, kBytes);
             }
           });
}

template <size_t kBytes>
void scatter(const Layout& layout, const Access& access, int64_t first, int64_t count,
             const std::byte* from) {
  for_runs(layout, access, first, count,
           [&](int64_t position, int64_t offset, int64_t length, int64_t stride) {
             std::byte* to = access.data + offset * static_cast<int64_t>(kBytes);
             const std::byte* in = from + position * static_cast<int64_t>(kBytes);
             const int64_t step = stride * static_cast<int64_t>(kBytes);
             for (int64_t i = 0; i < length; ++i, to += step, in += kBytes) {
               std::memcpy(to, in, kBytes);
             }
           });
}

// Packed elements have no addresses: copies them one by one, as values.
void gather_packed(const Layout& layout, const Access& access, ElementType type, int64_t first,
                   int64_t count, std::byte* to) {
  for_runs(layout, access, first, count,
           [&](int64_t position, int64_t offset, int64_t length, int64_t stride) {
             for (int64_t i = 0; i < length; ++i) {
               const int64_t from = offset + i * stride;
               if (type == ElementType::f32) {
                 store_double(type, to, position + i, load_double(access.type, access.data, from));
               } else {
                 store_int(type, to, position + i, load_int(access.type, access.data, from));
               }
             }
           });
}

template <class F>
void with_size(ElementType type, F&& f) {
  switch (info(type).bits / 8) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 4:
      return f.template operator()<4>();
    default:
      return f.template operator()<8>();
  }
}

template <class T>
void fill(std::byte* to, int64_t count) {
  T value;
  std::memcpy(&value, to, sizeof value);
  std::fill_n(reinterpret_cast<T*>(to), count, value);
}

int64_t byte_offset(ElementType type, int64_t element) { return element * info(type).bits / 8; }

// True if a kernel can read this memory as a register. Booleans in registers are 0 or 1; a caller's
// may be any byte, so they are converted.
bool serves_kernels(const Access& access, ExprType type, const std::byte* at, int64_t count) {
  const ElementType element = register_type(type);
  return access.linear && access.type == element && count % kLanes == 0 &&
         reinterpret_cast<uintptr_t>(at) % static_cast<size_t>(info(element).bits / 8) == 0;
}

}  // namespace

int64_t Layout::count() const {
  int64_t product = 1;
  for (int axis = 0; axis < rank; ++axis) product *= dims[static_cast<size_t>(axis)];
  return product;
}

ElementType register_type(ExprType type) {
  switch (type) {
    case ExprType::f32:
      return ElementType::f32;
    case ExprType::f64:
      return ElementType::f64;
    case ExprType::i32:
      return ElementType::i32;
    case ExprType::i64:
      return ElementType::i64;
    case ExprType::u64:
      return ElementType::u64;
    default:
      return ElementType::boolean;
  }
}

namespace {

// Puts axes of larger strides of the result first. Axes of size 1 stay behind the axis before them.
void order_axes(Layout& layout, std::span<Access> all) {
  const auto stride_of = [&](int axis) { return all.back().strides[static_cast<size_t>(axis)]; };
  const auto swap_axes = [&](int a, int b) {
    const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
    std::swap(layout.dims[x], layout.dims[y]);
    for (Access& access : all) std::swap(access.strides[x], access.strides[y]);
  };
  for (int axis = 1; axis < layout.rank; ++axis) {
    for (int at = axis; at > 0; --at) {
      const bool movable = layout.dims[static_cast<size_t>(at)] == 1 ||
                           layout.dims[static_cast<size_t>(at - 1)] == 1 ||
                           stride_of(at - 1) >= stride_of(at);
      if (movable) break;
      swap_axes(at - 1, at);
    }
  }
}

}  // namespace

Access access_to(const TensorView& view, const TensorView& out, int operand) {
  Access access{.data = static_cast<std::byte*>(view.data), .type = view.type};
  check(view.rank <= out.rank, ErrorKind::invalid_argument,
        "operand {} of rank {} does not broadcast to rank {}", operand, view.rank, out.rank);
  for (int axis = 0; axis < view.rank; ++axis) {
    const auto from = static_cast<size_t>(axis);
    const auto to = static_cast<size_t>(axis + out.rank - view.rank);
    check(view.dims[from] == out.dims[to] || view.dims[from] == 1, ErrorKind::invalid_argument,
          "size {} of axis {} of operand {} does not broadcast to {}", view.dims[from], axis,
          operand, out.dims[to]);
    access.strides[to] = view.dims[from] == 1 ? 0 : view.strides[from];
  }
  return access;
}

void collapse(Layout& layout, std::span<Access> all) {
  order_axes(layout, all);
  int kept = 0;
  for (int axis = 0; axis < layout.rank; ++axis) {
    const auto a = static_cast<size_t>(axis);
    const int64_t extent = layout.dims[a];
    if (extent == 1) continue;
    const auto k = static_cast<size_t>(kept);
    const bool joins = kept > 0 && std::all_of(all.begin(), all.end(), [&](const Access& access) {
                         return access.strides[k - 1] == access.strides[a] * extent;
                       });
    const size_t to = joins ? k - 1 : k;
    layout.dims[to] = joins ? layout.dims[to] * extent : extent;
    for (Access& access : all) access.strides[to] = access.strides[a];
    kept += joins ? 0 : 1;
  }
  layout.rank = kept;
  for (Access& access : all) classify(layout, access);
}

void classify(const Layout& layout, Access& access) {
  access.scalar = access.linear = true;
  int64_t dense = 1;
  for (int axis = layout.rank - 1; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    access.scalar = access.scalar && access.strides[a] == 0;
    access.linear = access.linear && access.strides[a] == dense;
    dense *= layout.dims[a];
  }
}

void Converter::operator()(ElementType to, void* dst, ElementType from, const void* src,
                           int64_t count) const {
  function == nullptr ? convert(to, dst, from, src, count)
                      : function(context, to, dst, from, src, count);
}

const std::byte* load(const Layout& layout, const Access& access, ExprType type, int64_t first,
                      int64_t count, std::byte* buffer, const Converter& convert) {
  const ElementType element = register_type(type);
  if (access.scalar) {
    convert(element, buffer, access.type, access.data, 1);
    with_size(element, [&]<size_t kBytes>() {
      using Bits = std::conditional_t<kBytes == 1, uint8_t,
                                      std::conditional_t<kBytes == 4, uint32_t, uint64_t>>;
      fill<Bits>(buffer, count);
    });
    return buffer;
  }
  if (access.linear) {
    const std::byte* from = access.data + byte_offset(access.type, first);
    if (type != ExprType::boolean && serves_kernels(access, type, from, count)) return from;
    convert(element, buffer, access.type, from, count);
    return buffer;
  }
  if (is_packed(access.type)) {
    gather_packed(layout, access, element, first, count, buffer);
    return buffer;
  }
  alignas(64) std::array<std::byte, kMaxChunk * 8> elements;
  with_size(access.type, [&]<size_t kBytes>() {
    gather<kBytes>(layout, access, first, count, elements.data());
  });
  convert(element, buffer, access.type, elements.data(), count);
  return buffer;
}

std::byte* direct_output(const Access& access, ExprType type, int64_t first, int64_t count) {
  std::byte* to = access.data + byte_offset(access.type, first);
  return serves_kernels(access, type, to, count) ? to : nullptr;
}

void store(const Layout& layout, const Access& access, ExprType type, int64_t first, int64_t count,
           const std::byte* values, const Converter& convert) {
  const ElementType element = register_type(type);
  if (access.linear) {
    convert(access.type, access.data + byte_offset(access.type, first), element, values, count);
    return;
  }
  alignas(64) std::array<std::byte, kMaxChunk * 8> elements;
  convert(access.type, elements.data(), element, values, count);
  with_size(access.type, [&]<size_t kBytes>() {
    scatter<kBytes>(layout, access, first, count, elements.data());
  });
}

}  // namespace lathe::interpret
