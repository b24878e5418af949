// SPDX-License-Identifier: MIT
// An ONNX model as plain structs. A file read through protobuf, ONNX text, or a graph that another
// program holds fill them alike; the importer sees nothing else.
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

// The newest version of the file format known here.
inline constexpr int64_t kIrVersion = 14;
// Nesting of subgraphs and of model-local functions; keeps recursion within the stack.
inline constexpr int kMaxGraphDepth = 64;
inline constexpr int kMaxFunctionDepth = 64;

// All views point into memory that Model::owners (or TensorData::owner) keep alive.

// Where a tensor's bytes lie when they are not in the model.
struct ExternalData {
  std::string_view location;  // relative to the model's folder
  uint64_t offset = 0;
  std::optional<uint64_t> length;          // of the tensor; absent: as long as it needs
  std::shared_ptr<ExternalFolder> folder;  // null if the model did not come from a file
};

// Extents and bytes agree: whoever fills this has checked. External bytes are checked by to_tensor.
struct TensorData {
  std::string_view name;
  ElementType type = ElementType::f32;
  Dims dims;
  std::span<const std::byte> bytes;       // row-major, little endian, packed types dense
  std::vector<std::string_view> strings;  // of a string tensor instead of bytes
  std::optional<ExternalData> external;   // instead of both
  std::shared_ptr<const void> owner;      // of bytes, strings and name
};

struct Extent {
  int64_t value = -1;       // negative: not fixed
  std::string_view symbol;  // dim_param; empty: not named
};

struct ValueType {
  enum class Kind : uint8_t { unknown, tensor, sequence, optional, map };
  Kind kind = Kind::unknown;
  std::optional<ElementType> element;          // of a tensor, if known; key of a map
  std::optional<std::vector<Extent>> extents;  // of a tensor; nullopt: unknown rank
  std::shared_ptr<const ValueType> item;       // of a sequence or optional; value of a map
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
  // In the order of Value. `other`: a sparse tensor or list of types, whose content is not kept.
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
  std::string_view reference;  // of the function's attribute that gives the value; usually empty
  Value value;

  Kind kind() const { return static_cast<Kind>(value.index()); }
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
};
std::string_view to_string(Attribute::Kind kind);  // as ONNX spells it: "FLOAT", "INTS"

struct Node {
  std::string_view name;
  std::string_view op_type;
  std::string_view domain;  // "ai.onnx" is spelt ""
  std::string_view overload;
  std::vector<std::string_view> inputs;   // "": absent
  std::vector<std::string_view> outputs;  // "": not wanted
  std::vector<Attribute> attributes;
  int64_t index = 0;  // position in the file's list, which messages name

  const Attribute* find(std::string_view attribute) const;
};

struct Graph {
  std::string_view name;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_infos;
  std::vector<TensorData> initializers;  // one named like an input is that input's default
  std::vector<Node> nodes;               // each after what it uses, once made well-formed
};

struct OpsetImport {
  std::string_view domain;  // "ai.onnx" is spelt ""
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
  std::vector<std::string_view> attributes;  // that a call must give
  std::vector<Attribute> defaults;           // that it may give
  OpsetImports imports;
  std::vector<Node> nodes;
};

struct Model {
  std::string origin;  // the file's name as given; "<memory>" without one
  int64_t ir_version = 0;
  OpsetImports imports;
  std::string_view producer;
  std::string_view producer_version;
  std::string_view domain;
  int64_t model_version = 0;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  Graph graph;
  std::vector<Function> functions;
  std::shared_ptr<const FileMap> file;  // null: not from a (binary) file
  std::vector<std::shared_ptr<const void>> owners;

  const Function* find_function(std::string_view domain, std::string_view name,
                                std::string_view overload) const;
};

// "in model.onnx, node 57 (Conv 'name', opset 11)": the line that errors about a node carry.
std::string node_note(std::string_view origin, const OpsetImports& imports, const Node& node);
// "in function 'my.domain:name'".
std::string function_note(const Function& function);

}  // namespace lathe::onnx
