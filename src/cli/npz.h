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

// An archive whose members are read when they are asked for.
class NpzReader {
 public:
  // InvalidArgument if the file is no zip archive.
  explicit NpzReader(std::shared_ptr<const FileMap> file);
  ~NpzReader();
  NpzReader(const NpzReader&) = delete;
  NpzReader& operator=(const NpzReader&) = delete;

  const std::vector<std::string>& names() const;  // without ".npy"
  // See read_npy for `wanted`. InvalidArgument if the member is missing or damaged.
  Tensor read(std::string_view name, std::optional<ElementType> wanted) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The archive's bytes; members are stored as they are.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};
std::string write_npz(std::span<const NamedTensor> tensors);

}  // namespace lathe::cli
