// SPDX-License-Identifier: MIT
// Tensors whose bytes lie in files beside the model.
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

#include "base/file_map.h"
#include "base/folder.h"
#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// The folder of a model; maps the files its tensors name, each once and when first wanted.
// A file must lie in the folder, links followed; a link may lead out of it only from snapshots/ to
// blobs/ of one Hugging Face cache entry. Thread-safe.
class ExternalFolder {
 public:
  // Files in memory stand before those of the folder, which may be empty: then there are no others.
  explicit ExternalFolder(const std::string& folder, const MemoryFiles& memory = {})
      : folder_(folder.empty() ? "" : real_path(folder)), memory_(files_below(memory, ".")) {}

  // Where a file lies; nullopt if in memory.
  std::optional<std::string> path(std::string_view location) const;

  struct Bytes {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  // The `size` bytes of `tensor`: Io if the file cannot be opened, InvalidArgument if it was not
  // given, InvalidModel if they are not there or may not be read.
  Bytes read(const ExternalData& data, std::string_view tensor, uint64_t size);

 private:
  MemoryFile open(std::string_view location, std::string_view tensor);

  std::string folder_;
  MemoryFiles memory_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const FileMap>, std::less<>> files_;
};

// From the pairs of TensorProto.external_data. The location's form is checked here, so that a
// hostile one is refused even if nobody reads the tensor.
using StringPairs = std::vector<std::pair<std::string_view, std::string_view>>;
ExternalData parse_external_data(const StringPairs& pairs, std::string_view tensor,
                                 std::shared_ptr<ExternalFolder> folder);

}  // namespace lathe::onnx
