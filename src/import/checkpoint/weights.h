// SPDX-License-Identifier: MIT
// The tensors of a checkpoint, mapped from their files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/folder.h"
#include "import/checkpoint/files/gguf.h"
#include "import/checkpoint/packed_matrix.h"
#include "tensor/tensor.h"

namespace lathe::checkpoint {

// A tensor made from several of a quantised checkpoint.
class QuantisedTensor {
 public:
  virtual ~QuantisedTensor() = default;
  // nullopt: there is no such form.
  virtual std::optional<PackedMatrix> packed() const { return std::nullopt; }
  virtual Tensor dequantised() const = 0;   // f32 or bf16
  virtual std::string held_as() const = 0;  // for people: "4-bit codes"
};

struct StoredTensor {
  std::string type;  // as the file spells it: "BF16", "Q4_K"; or the quantiser: "GPTQ4"
  Dims dims;         // outermost first
  std::string_view bytes;
  std::shared_ptr<const void> owner;  // keeps `bytes` alive; null: the caller does
  std::string file;
  uint64_t offset = 0;
  std::string stored_name;                           // in the file, for messages
  std::shared_ptr<const QuantisedTensor> quantised;  // null: `bytes` are the elements or blocks

  int rank() const { return static_cast<int>(dims.size()); }
  // A block type of GGUF; false: elements of whole bytes.
  bool is_blocks() const;
};

class Weights {
 public:
  // All *.safetensors that model.safetensors.index.json names, or the folder's only one.
  static Weights open_safetensors(const Folder& folder);
  // Adds the tensors of a GGUF file, under their names in the file.
  void add_gguf(const GgufFile& gguf, const MemoryFile& file, const std::string& path);

  // Null if there is none.
  const StoredTensor* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // InvalidModel, with the nearest names, if there is none.
  const StoredTensor& get(std::string_view name) const;
  const std::map<std::string, StoredTensor, std::less<>>& all() const { return tensors_; }
  void rename(const std::string& from, const std::string& to);
  // Removes the tensor and returns it; InvalidModel, with the nearest names, if there is none.
  StoredTensor take(const std::string& name);
  // InvalidModel if there is one of this name.
  void insert(const std::string& name, StoredTensor tensor);
  // Files may omit axes of one element; both shapes have the same number of elements.
  void set_dims(const std::string& name, Dims dims);
  int64_t bytes() const;

  // Unsupported for a tensor that neither find() nor get() returned, whose name has none of these
  // prefixes.
  void check_used(const std::vector<std::string_view>& ignored, std::string_view model_type) const;

 private:
  void add_safetensors(const Folder& folder, const std::string& name,
                       const std::map<std::string, std::string>* map);

  std::map<std::string, StoredTensor, std::less<>> tensors_;
  mutable std::set<const StoredTensor*> used_;
};

// The tensor's elements with their stored type; Unsupported for block types.
Tensor plain_tensor(const StoredTensor& stored, std::string_view name);
// As plain_tensor(), but where they lie, which may be any address.
Tensor mapped_tensor(const StoredTensor& stored, std::string_view name);

}  // namespace lathe::checkpoint
