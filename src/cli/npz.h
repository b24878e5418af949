// SPDX-License-Identifier: MIT
// Named arrays in numpy's .npz format: a zip archive of .npy files.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_map.h"
#include "tensor/tensor.h"

namespace lathe::cli {

bool looks_like_npz(std::string_view bytes);

// Reads members of an archive on demand.
class NpzReader {
 public:
  // InvalidArgument for a file that is not a zip archive.
  explicit NpzReader(std::shared_ptr<const FileMap> file);
  ~NpzReader();
  NpzReader(const NpzReader&) = delete;
  NpzReader& operator=(const NpzReader&) = delete;

  const std::vector<std::string>& names() const;  // without ".npy"
  // `expected`: as for read_npy. InvalidArgument for a missing or damaged member, OutOfMemory.
  Tensor read(std::string_view name, std::optional<ElementType> expected) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
// The bytes of an archive with uncompressed members.
std::string write_npz(std::span<const NamedTensor> tensors);

}  // namespace lathe::cli
