// SPDX-License-Identifier: MIT
// Side file of a program's text: the tensors that the text refers to by hash.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace lathe {

// Writes literals, each once, in pieces.
void write_literals(std::span<const LiteralRef> literals,
                    const std::function<void(std::string_view)>& write);
// Writes every literal that print() shows as a hash.
void write_literals(const Program& program, const std::function<void(std::string_view)>& write);
// Writes the side file atomically: a failure leaves no partial file.
void write_literals(const std::string& path, const Program& program);

// Reads a side file in place: tensors share its bytes.
class LiteralFile {
 public:
  // Large literals are constants of the file (tensor/mapped.h): restore_stored() checks their
  // bytes.
  static LiteralFile open(const std::string& path);
  // Checks the index; InvalidModel if it exceeds the bytes. `owner` keeps the bytes alive.
  LiteralFile(std::string name, std::string_view bytes, std::shared_ptr<const void> owner);

  // Null if the file has no such literal; InvalidModel if its bytes have another hash.
  LiteralRef find(uint64_t hash) const;
  size_t size() const { return entries_.size(); }

 private:
  class Mapped;
  struct Entry {
    ElementType type = ElementType::f32;
    Dims dims;
    size_t offset = 0;
    size_t bytes = 0;
  };
  Tensor tensor_of(const Entry& entry) const;
  Tensor strings_of(const Entry& entry) const;
  void check_hash(uint64_t hash, const Entry& entry) const;

  std::string name_;
  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
  std::map<uint64_t, Entry> entries_;
  std::shared_ptr<const Mapped> mapped_;  // null: find() checks all bytes
};

}  // namespace lathe
