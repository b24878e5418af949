// SPDX-License-Identifier: MIT
// Tensors in mapped files, and constants of compiled files, whose elements may exist only in a
// packed form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tensor/tensor.h"

namespace lathe {

class ThreadPool;

// Makes the pages of elements in a mapped file non-resident; reading them again brings them back.
void release_mapped(const Tensor& tensor);
// Where a dense tensor's elements lie in a mapped file, as mapped_place() of its bytes; "" for
// others.
std::string mapped_place(const Tensor& tensor);

// The constants of one file. Thread-safe.
class StoredConstants {
 public:
  virtual ~StoredConstants() = default;
  // Equal for files of equal content: weights of other files are never shared with its own.
  virtual uint64_t identity() const = 0;
  // The content hash of the constant at this address, as of Literal::hash(); 0 if it is none.
  virtual uint64_t hash_at(const void* data) const = 0;
  // Makes the elements present and checks them. InvalidModel.
  virtual void restore(const void* data) const = 0;
  // As restore(), but elements that are in the file are checked by the next check_requested().
  virtual void restore_unchecked(const void* data) const = 0;
  // Packed weights by their key, of exactly this size; null if the file has none. They are checked
  // by the next check_requested().
  virtual std::shared_ptr<const void> packed(const std::string& key, size_t bytes) const = 0;
  virtual void check_requested(ThreadPool* pool) const = 0;
  // False for a placeholder, whose elements are zeros.
  virtual bool is_known(const void* data) const = 0;
};

// The file to which the constant belongs; null: none. Valid while the tensor is.
const StoredConstants* stored_constants(const Tensor& tensor);
// Makes the elements of a file's constant present and checks them; does nothing for other tensors.
void restore_stored(const Tensor& tensor);

// False for a placeholder of a file's constant: analyses must not read its elements.
bool is_known(const Tensor& tensor);

// Registers the memory of a file's constants while it exists.
class StoredRange {
 public:
  StoredRange(const void* begin, size_t bytes, const StoredConstants& file);
  ~StoredRange();
  StoredRange(const StoredRange&) = delete;
  StoredRange& operator=(const StoredRange&) = delete;

 private:
  const void* begin_;
};

}  // namespace lathe
