// SPDX-License-Identifier: MIT
// Copies of a model's names.
#pragma once

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace lathe::onnx {

// Names are stored between the weights. Reading a copy does not touch the file's pages; one
// touched page can make megabytes of the file resident.
class StringArena {
 public:
  // A copy owned by the arena; a long text is not copied.
  std::string_view keep(std::string_view text) {
    if (text.empty() || text.size() > kLongest) return text;
    if (text.size() > left_) {
      chunks_.push_back(std::make_unique<char[]>(kChunk));
      next_ = chunks_.back().get();
      left_ = kChunk;
    }
    char* copy = next_;
    std::memcpy(copy, text.data(), text.size());
    next_ += text.size();
    left_ -= text.size();
    return {copy, text.size()};
  }

 private:
  static constexpr size_t kLongest = 4096;
  static constexpr size_t kChunk = 64 * 1024;
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace lathe::onnx
