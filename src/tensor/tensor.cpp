// SPDX-License-Identifier: MIT
#include "tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/os_memory.h"

namespace lathe {
namespace {

constexpr size_t kAlignment = 64;                 // a cache line, and the widest vector register
constexpr size_t kOwnMapping = size_t{32} << 20;  // from this size on, malloc calls mmap
// Larger requests are errors of the caller.
constexpr size_t kLargestAllocation = (size_t{1} << 40) - 4096;
// Kernels still walk the other axes of a tensor without elements.
constexpr int64_t kMaxEmptyProduct = int64_t{1} << 32;

class HostAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    if (bytes > kLargestAllocation) return nullptr;
    // Large pages avoid TLB misses. In smaller allocations, this alignment would fragment the heap.
    if (bytes >= kOwnMapping) alignment = std::max(alignment, kLargePage);
    void* memory = nullptr;
    alignment = std::max(alignment, sizeof(void*));
    if (posix_memalign(&memory, alignment, std::max<size_t>(bytes, 1)) != 0) return nullptr;
    prefer_large_pages(memory, bytes);
    return memory;
  }
  void deallocate(void* pointer, size_t /*bytes*/) noexcept override { std::free(pointer); }
};

void check_rank(ElementType type, std::span<const int64_t> dims) {
  check(dims.size() <= static_cast<size_t>(kMaxRank), ErrorKind::unsupported,
        "tensor of {} has rank {}, at most {} is supported", to_string(type), dims.size(),
        kMaxRank);
}

int64_t byte_count(ElementType type, int64_t count) {
  if (type != ElementType::string) return bytes_for(type, count);
  constexpr auto kSize = static_cast<int64_t>(sizeof(std::string));
  check(count <= std::numeric_limits<int64_t>::max() / kSize, ErrorKind::out_of_memory,
        "{} strings exceed the address space", count);
  return count * kSize;
}

bool is_dense_layout(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return true;
  int64_t expected = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

// Allocates zero-filled memory that the last owner returns to the allocator.
std::shared_ptr<void> allocate_elements(ElementType type, std::span<const int64_t> dims,
                                        int64_t count, Allocator& allocator) {
  const auto bytes = static_cast<size_t>(byte_count(type, count));
  void* memory = allocator.allocate(bytes, kAlignment);
  if (memory == nullptr) {
    fail(ErrorKind::out_of_memory, "cannot allocate {}: {} bytes", to_string(type, dims), bytes);
  }
  if (type != ElementType::string) {
    std::memset(memory, 0, bytes);
    return {memory, [&allocator, bytes](void* p) { allocator.deallocate(p, bytes); }};
  }
  auto* strings = static_cast<std::string*>(memory);
  std::uninitialized_value_construct_n(strings, count);
  return {memory, [&allocator, bytes, count](void* p) {
            std::destroy_n(static_cast<std::string*>(p), count);
            allocator.deallocate(p, bytes);
          }};
}

}  // namespace

Allocator& host_allocator() {
  static HostAllocator allocator;
  return allocator;
}

int64_t element_count(std::span<const int64_t> dims) {
  int64_t count = 1;
  int64_t product = 1;  // without axes of size 0
  bool is_empty = false;
  bool overflows = false;
  for (const int64_t extent : dims) {
    check(extent >= 0, ErrorKind::invalid_argument, "shape [{}] has negative size {}",
          fmt::join(dims, ", "), extent);
    is_empty |= extent == 0;
    overflows |= __builtin_mul_overflow(count, extent, &count);
    overflows |= __builtin_mul_overflow(product, std::max<int64_t>(extent, 1), &product);
  }
  if (is_empty) {
    check(!overflows && product <= kMaxEmptyProduct, ErrorKind::out_of_memory,
          "shape [{}] has no elements, but its other sizes multiply to more than {}",
          fmt::join(dims, ", "), kMaxEmptyProduct);
    return 0;
  }
  check(!overflows, ErrorKind::out_of_memory, "shape [{}] has more than {} elements",
        fmt::join(dims, ", "), std::numeric_limits<int64_t>::max());
  return count;
}

int64_t TensorView::count() const { return element_count(extents()); }

bool TensorView::is_dense() const {
  return is_dense_layout(extents(), {strides.data(), static_cast<size_t>(rank)});
}

Tensor::Tensor(ElementType type, Dims dims, Allocator& allocator)
    : type_(type), dims_(std::move(dims)) {
  check_rank(type_, dims_);
  const int64_t count = element_count(dims_);
  strides_ = dense_strides(dims_);
  owner_ = allocate_elements(type_, dims_, count, allocator);
  data_ = owner_.get();
}

Tensor::Tensor(ElementType type, Dims dims, Dims strides, void* data, std::shared_ptr<void> owner)
    : type_(type),
      dims_(std::move(dims)),
      strides_(std::move(strides)),
      data_(data),
      owner_(std::move(owner)) {
  check_rank(type_, dims_);
  if (dims_.size() != strides_.size()) {
    fail(ErrorKind::invalid_argument,
         "tensor {} has {} strides, expected one for each of its {} dims", to_string(type_, dims_),
         strides_.size(), dims_.size());
  }
  const int64_t count = element_count(dims_);
  byte_count(type_, count);
  if (data_ == nullptr && count != 0) {
    fail(ErrorKind::invalid_argument, "tensor {} has no memory (null data), expected {} elements",
         to_string(type_, dims_), count);
  }
  if (is_packed(type_) && !is_dense()) {
    fail(ErrorKind::invalid_argument,
         "tensor {} has strides [{}], expected dense elements below 8 bits",
         to_string(type_, dims_), fmt::join(strides_, ", "));
  }
}

Dims Tensor::dense_strides(std::span<const int64_t> dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    // The strides of an empty tensor may overflow: they are unused.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(dims[i], 1), &stride)) stride = 1;
  }
  return strides;
}

int64_t Tensor::count() const { return element_count(dims_); }

int64_t Tensor::byte_size() const { return byte_count(type_, count()); }

bool Tensor::is_dense() const { return is_dense_layout(dims_, strides_); }

TensorView Tensor::view() const {
  TensorView view;
  view.type = type_;
  view.rank = rank();
  std::copy(dims_.begin(), dims_.end(), view.dims.begin());
  std::copy(strides_.begin(), strides_.end(), view.strides.begin());
  view.data = data_;
  return view;
}

Tensor Tensor::dense() const { return is_dense() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor copy(type_, dims_);
  copy_elements(view(), copy.view());
  return copy;
}

bool Tensor::is_aligned() const {
  return reinterpret_cast<uintptr_t>(data_) % alignment_of(type_) == 0;
}

Tensor Tensor::aligned() const { return is_aligned() ? *this : clone(); }

bool identical(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.dims() != b.dims()) return false;
  const int64_t count = a.count();
  if (count == 0) return true;
  const Tensor x = a.dense();
  const Tensor y = b.dense();
  if (a.type() == ElementType::string) {
    return std::equal(x.as<std::string>(), x.as<std::string>() + count, y.as<std::string>());
  }
  // The bits after the last packed element are undefined.
  const int64_t bits = info(a.type()).bits;
  const int64_t tail_bits = bits < 8 ? count % (8 / bits) * bits : 0;
  const auto whole = static_cast<size_t>(x.byte_size() - (tail_bits != 0 ? 1 : 0));
  if (std::memcmp(x.data(), y.data(), whole) != 0) return false;
  const int mask = (1 << tail_bits) - 1;
  return tail_bits == 0 || ((x.as<uint8_t>()[whole] ^ y.as<uint8_t>()[whole]) & mask) == 0;
}

std::string to_string(ElementType type, std::span<const int64_t> dims) {
  return fmt::format("{}[{}]", to_string(type), fmt::join(dims, ", "));
}

}  // namespace lathe
