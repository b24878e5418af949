// SPDX-License-Identifier: MIT
// Typed buffers at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/element_type.h"

namespace lathe {

using Dims = std::vector<int64_t>;

// Kernels store shapes in fixed arrays, so that a launch does not allocate.
inline constexpr int kMaxRank = 16;

// Allocates the memory of tensors. Implementations are thread-safe. `allocate` returns memory
// aligned to `alignment`, or nullptr on failure.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual void* allocate(size_t bytes, size_t alignment) = 0;
  virtual void deallocate(void* pointer, size_t bytes) noexcept = 0;
};
Allocator& host_allocator();

// A non-owning view for kernels. Strides are in elements; a packed type (below 8 bits) is always
// dense, and `data` points to its first byte. Strings are std::string objects.
struct TensorView {
  ElementType type = ElementType::f32;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank> strides{};
  void* data = nullptr;

  int64_t count() const;
  bool is_dense() const;  // row-major without gaps (axes of size 1 may have any stride)
  std::span<const int64_t> extents() const { return {dims.data(), static_cast<size_t>(rank)}; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// A view with shared ownership of its memory; copying a Tensor does not copy elements.
class Tensor {
 public:
  Tensor() = default;
  // Dense, zero-filled (strings empty). OutOfMemory if the size overflows or the allocation fails.
  Tensor(ElementType type, Dims dims, Allocator& allocator = host_allocator());
  // Foreign memory, kept alive by `owner` (null: by the caller). Strides in elements;
  // InvalidArgument for packed types that are not dense.
  Tensor(ElementType type, Dims dims, Dims strides, void* data, std::shared_ptr<void> owner);

  static Dims dense_strides(std::span<const int64_t> dims);

  ElementType type() const { return type_; }
  const Dims& dims() const { return dims_; }
  const Dims& strides() const { return strides_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t count() const;
  int64_t byte_size() const;  // of the elements stored contiguously
  bool is_dense() const;
  void* data() const { return data_; }
  const std::shared_ptr<void>& owner() const { return owner_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  template <class T>
  std::span<T> elements() const {  // dense tensors of whole-byte types
    return {static_cast<T*>(data_), static_cast<size_t>(count())};
  }

  TensorView view() const;
  Tensor dense() const;  // itself if dense, else a dense copy
  Tensor clone() const;  // always a dense copy
  // Foreign memory may be unaligned; `as` and `elements` require alignment.
  bool is_aligned() const;
  Tensor aligned() const;  // itself if aligned, else a dense copy

 private:
  ElementType type_ = ElementType::f32;
  Dims dims_;
  Dims strides_;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

// Number of elements of a shape; OutOfMemory on overflow, InvalidArgument if a size is negative.
int64_t element_count(std::span<const int64_t> dims);

// True for equal types, shapes and bits (a NaN equals only the same NaN).
bool identical(const Tensor& a, const Tensor& b);

// Copies elements between views of equal type and shape, with any strides.
void copy_elements(const TensorView& from, const TensorView& to);

// "f32[2, 3]"
std::string to_string(ElementType type, std::span<const int64_t> dims);

}  // namespace lathe
