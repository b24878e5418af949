// SPDX-License-Identifier: MIT
// Tensors whose bytes are in files beside the model.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_map.h"
#include "base/folder.h"
#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// A file in memory is missing: InvalidArgument of the caller, not an error of the model.
class MissingData : public Error {
 public:
  explicit MissingData(std::string message)
      : Error(ErrorKind::invalid_argument, std::move(message)) {}
};

// The folder of a model. Maps each file that a tensor names once, at its first use. With links
// resolved, a file must be in the folder, or be a link from snapshots/ to blobs/ of one Hugging
// Face cache entry. Thread-safe.
class ExternalFolder {
 public:
  // Files in memory take precedence over the folder's. An empty folder: only files in memory.
  explicit ExternalFolder(const std::string& folder, const MemoryFiles& memory = {})
      : folder_(folder.empty() ? "" : real_path(folder)), memory_(files_below(memory, ".")) {}

  // The path of a file; nullopt if it is in memory.
  std::optional<std::string> path(std::string_view location) const;

  struct Bytes {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  // Returns the `size` bytes of `tensor`. Io if the file cannot be opened, InvalidArgument if it is
  // not among the files in memory, InvalidModel if it is too short or outside of the folder.
  Bytes read(const ExternalData& data, std::string_view tensor, uint64_t size);

 private:
  MemoryFile open(std::string_view location, std::string_view tensor);

  std::string folder_;
  MemoryFiles memory_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const FileMap>, std::less<>> files_;
};

// Parses the pairs of TensorProto.external_data. Checks the location's form, so that a hostile
// one is refused even if the tensor is unused.
using StringPairs = std::vector<std::pair<std::string_view, std::string_view>>;
ExternalData parse_external_data(const StringPairs& pairs, std::string_view tensor,
                                 std::shared_ptr<ExternalFolder> folder);

}  // namespace lathe::onnx
