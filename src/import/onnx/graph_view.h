// SPDX-License-Identifier: MIT
// An ONNX model as plain structs: the importer's only input. The protobuf reader, the text reader
// and embedding programs fill them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/element_type.h"
#include "tensor/tensor.h"

namespace lathe {
class FileMap;
}

namespace lathe::onnx {

class ExternalFolder;
struct Graph;

// The newest supported version of the file format.
inline constexpr int64_t kIrVersion = 14;
// Nesting of subgraphs and of model-local functions; bounds recursion.
inline constexpr int kMaxGraphDepth = 64;
inline constexpr int kMaxFunctionDepth = 64;

// All views point into memory owned by Model::owners or TensorData::owner.

// The place of a tensor's bytes outside of the model.
struct ExternalData {
  std::string_view location;  // relative to the model's folder
  uint64_t offset = 0;
  std::optional<uint64_t> length;          // bytes; absent: the tensor's size
  std::shared_ptr<ExternalFolder> folder;  // null for a model without a file
};

// The reader checks that dims and bytes agree; to_tensor checks external bytes.
struct TensorData {
  std::string_view name;
  ElementType type = ElementType::f32;
  Dims dims;
  std::span<const std::byte> bytes;       // row-major, little endian, packed types dense
  std::vector<std::string_view> strings;  // elements of a string tensor; replaces bytes
  std::optional<ExternalData> external;   // replaces both
  std::shared_ptr<const void> owner;      // of bytes, strings and name
};

struct Extent {
  int64_t value = -1;       // negative: unknown
  std::string_view symbol;  // dim_param; may be empty
  std::string_view denotation{};
};

struct ValueType {
  enum class Kind : uint8_t { unknown, tensor, sequence, optional, map };
  Kind kind = Kind::unknown;
  std::optional<ElementType> element;          // of a tensor, if known; key of a map
  std::optional<std::vector<Extent>> extents;  // of a tensor; nullopt: unknown rank
  std::shared_ptr<const ValueType> item;       // of a sequence or optional; value of a map
  std::string_view denotation{};
};

struct ValueInfo {
  std::string_view name;
  ValueType type;
};

struct Attribute {
  using Value =
      std::variant<std::monostate, float, int64_t, std::string_view,
                   std::shared_ptr<const TensorData>, std::shared_ptr<Graph>, std::vector<float>,
                   std::vector<int64_t>, std::vector<std::string_view>,
                   std::vector<std::shared_ptr<const TensorData>>,
                   std::vector<std::shared_ptr<Graph>>, std::shared_ptr<const ValueType>>;
  // In the order of Value. `other`: a list of sparse tensors or types; the content is dropped.
  enum class Kind : uint8_t {
    other,
    number,
    integer,
    text,
    tensor,
    graph,
    numbers,
    integers,
    texts,
    tensors,
    graphs,
    type,
  };

  std::string_view name;
  std::string_view reference;  // name of the function attribute with the value, or ""
  Value value;

  Kind kind() const { return static_cast<Kind>(value.index()); }
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
};
std::string_view to_string(Attribute::Kind kind);  // ONNX's spelling: "FLOAT", "INTS"

struct Node {
  std::string_view name;
  std::string_view op_type;
  std::string_view domain;  // "" for "ai.onnx"
  std::string_view overload;
  std::vector<std::string_view> inputs;   // "": absent
  std::vector<std::string_view> outputs;  // "": unused
  std::vector<Attribute> attributes;
  int64_t index = 0;  // position in the file's list, for messages

  const Attribute* find(std::string_view attribute) const;
};

struct Graph {
  std::string_view name;
  std::string_view description{};
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_infos;
  std::vector<TensorData> initializers;  // an input of the same name has this default
  std::vector<Node> nodes;               // topologically sorted by make_well_formed
};

struct OpsetImport {
  std::string_view domain;  // "" for "ai.onnx"
  int64_t version = 0;
};
using OpsetImports = std::vector<OpsetImport>;
std::optional<int64_t> opset_version(const OpsetImports& imports, std::string_view domain);
inline std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

struct Function {
  std::string_view domain;
  std::string_view name;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> attributes;  // required in a call
  std::vector<Attribute> defaults;           // optional in a call
  OpsetImports imports;
  std::vector<Node> nodes;
};

struct Model {
  std::string origin;  // the file's name, or "<memory>"
  int64_t ir_version = 0;
  OpsetImports imports;
  std::string_view producer;
  std::string_view producer_version;
  std::string_view domain;
  std::string_view description{};
  int64_t model_version = 0;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  Graph graph;
  std::vector<Function> functions;
  std::shared_ptr<const FileMap> file;  // of a binary model; null for others
  std::vector<std::shared_ptr<const void>> owners;

  const Function* find_function(std::string_view domain, std::string_view name,
                                std::string_view overload) const;
};

// "in model.onnx, node 57 (Conv 'name', opset 11)": the note of errors in a node.
std::string node_note(std::string_view origin, const OpsetImports& imports, const Node& node);
// "in function 'my.domain:name'".
std::string function_note(const Function& function);

}  // namespace lathe::onnx
