// SPDX-License-Identifier: MIT
#include "import/onnx/graph_reader.h"

#include <unordered_set>

#include "base/error.h"
#include "import/onnx/sparse_tensor.h"
#include "import/onnx/type_reader.h"

namespace lathe::onnx {
namespace {

// AttributeProto.AttributeType.
enum class AttributeType : int64_t {
  undefined = 0,
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
  sparse_tensor,
  sparse_tensors,
  type_proto,
  type_protos,
};

// The fields of an AttributeProto. The type field, which selects one, may come last.
struct AttributeFields {
  AttributeType declared = AttributeType::undefined;
  AttributeType seen = AttributeType::undefined;  // of the last field that holds a value
  float number = 0;
  int64_t integer = 0;
  std::string_view text;
  std::optional<std::string_view> tensor, graph, type, sparse;
  std::vector<float> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts, tensors, graphs;
};

// Reads a value field; false for any other tag.
bool read_value_field(ProtoMessage& message, AttributeFields& fields) {
  using enum AttributeType;
  switch (message.tag()) {
    case 2:
      fields.number = message.number();
      fields.seen = number;
      return true;
    case 3:
      fields.integer = message.integer();
      fields.seen = integer;
      return true;
    case 4:
      fields.text = message.name();
      fields.seen = text;
      return true;
    case 5:
      fields.tensor = message.text();
      fields.seen = tensor;
      return true;
    case 6:
      fields.graph = message.text();
      fields.seen = graph;
      return true;
    case 7:
      message.append(fields.numbers);
      fields.seen = numbers;
      return true;
    case 8:
      message.append(fields.integers);
      fields.seen = integers;
      return true;
    case 9:
      fields.texts.push_back(message.name());
      fields.seen = texts;
      return true;
    case 10:
      fields.tensors.push_back(message.text());
      fields.seen = tensors;
      return true;
    case 11:
      fields.graphs.push_back(message.text());
      fields.seen = graphs;
      return true;
    case 14:
      fields.type = message.text();
      fields.seen = type_proto;
      return true;
    case 15:
      message.skip();
      fields.seen = type_protos;
      return true;
    case 22:
      fields.sparse = message.text();
      fields.seen = sparse_tensor;
      return true;
    case 23:
      message.skip();
      fields.seen = sparse_tensors;
      return true;
    default:
      return false;
  }
}

std::string_view require(const std::optional<std::string_view>& field, std::string_view attribute,
                         std::string_view what) {
  check(field.has_value(), ErrorKind::invalid_model,
        "attribute '{}' is declared as {}, but has no such value", escape(attribute), what);
  return *field;
}

// A node of five bytes in the file takes two hundred bytes in memory; real models stay far below.
constexpr int64_t kMaxParts = 2'000'000;
// Sparse tensors of a few bytes are dense ones of any size in memory.
constexpr int64_t kMaxSparseBytes = int64_t{1} << 30;

}  // namespace

void GraphReader::count_part() {
  check(++parts_ <= kMaxParts, ErrorKind::invalid_model,
        "'{}' has more than {} nodes, values, tensors and attributes, at byte {}", escape(origin_),
        kMaxParts, place_.at - place_.begin);
}

ValueInfo GraphReader::value_info(std::string_view bytes) {
  count_part();
  ValueInfo out;
  std::string_view type_bytes;
  ProtoMessage message(place_, "ValueInfoProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        out.name = message.name();
        break;
      case 2:
        type_bytes = message.text();
        break;
      default:
        message.skip();
    }
  }
  check(!out.name.empty(), ErrorKind::invalid_model, "the value at byte {} has no name",
        place_.at - place_.begin);
  if (!type_bytes.empty()) out.type = read_type(place_, type_bytes, out.name);
  return out;
}

std::shared_ptr<const TensorData> GraphReader::tensor(std::string_view bytes) {
  count_part();
  return std::make_shared<const TensorData>(read_tensor_data(place_, bytes, source_));
}

TensorData GraphReader::sparse(std::string_view bytes) {
  count_part();
  TensorData tensor = read_sparse_tensor(place_, bytes, source_, kMaxSparseBytes - sparse_bytes_);
  sparse_bytes_ += static_cast<int64_t>(tensor.bytes.size());
  return tensor;
}

std::shared_ptr<Graph> GraphReader::subgraph(std::string_view bytes, const OpsetImports& imports) {
  check(depth_ < kMaxGraphDepth, ErrorKind::invalid_model,
        "subgraphs nest deeper than {} levels, at byte {}", kMaxGraphDepth,
        place_.at - place_.begin);
  ++depth_;
  auto out = std::make_shared<Graph>(graph(bytes, imports));
  --depth_;
  return out;
}

Attribute GraphReader::attribute(std::string_view bytes, const OpsetImports& imports) {
  using enum AttributeType;
  count_part();
  Attribute out;
  AttributeFields fields;
  ProtoMessage message(place_, "AttributeProto", bytes);
  while (message.next()) {
    if (read_value_field(message, fields)) continue;
    switch (message.tag()) {
      case 1:
        out.name = message.name();
        break;
      case 20:
        fields.declared = static_cast<AttributeType>(message.integer());
        break;
      case 21:
        out.reference = message.name();
        break;
      default:
        message.skip();
    }
  }
  if (!out.reference.empty()) return out;
  // The oldest files have no type.
  switch (fields.declared == undefined ? fields.seen : fields.declared) {
    case number:
      out.value = fields.number;
      break;
    case integer:
      out.value = fields.integer;
      break;
    case text:
      out.value = fields.text;
      break;
    case tensor:
      out.value = this->tensor(require(fields.tensor, out.name, "TENSOR"));
      break;
    case graph:
      out.value = subgraph(require(fields.graph, out.name, "GRAPH"), imports);
      break;
    case numbers:
      out.value = std::move(fields.numbers);
      break;
    case integers:
      out.value = std::move(fields.integers);
      break;
    case texts:
      out.value = std::move(fields.texts);
      break;
    case tensors: {
      auto& list = out.value.emplace<std::vector<std::shared_ptr<const TensorData>>>();
      for (const std::string_view item : fields.tensors) list.push_back(this->tensor(item));
      break;
    }
    case graphs: {
      auto& list = out.value.emplace<std::vector<std::shared_ptr<Graph>>>();
      for (const std::string_view item : fields.graphs) list.push_back(subgraph(item, imports));
      break;
    }
    case type_proto:
      out.value = std::make_shared<const ValueType>(
          read_type(place_, require(fields.type, out.name, "TYPE_PROTO"), out.name));
      break;
    case sparse_tensor:
      out.value = std::make_shared<const TensorData>(
          sparse(require(fields.sparse, out.name, "SPARSE_TENSOR")));
      break;
    case sparse_tensors:
    case type_protos:
      break;
    default:
      fail(ErrorKind::invalid_model, "attribute '{}' has type {} and no value, expected 1 to 14",
           escape(out.name), static_cast<int64_t>(fields.declared));
  }
  return out;
}

void GraphReader::read_attributes(const std::vector<std::string_view>& messages, Node& node,
                                  const OpsetImports& imports) {
  std::unordered_set<std::string_view> names;
  for (const std::string_view bytes : messages) {
    node.attributes.push_back(attribute(bytes, imports));
    const std::string_view name = node.attributes.back().name;
    check(!name.empty(), ErrorKind::invalid_model, "attribute {} of the node has no name",
          names.size());
    check(names.insert(name).second, ErrorKind::invalid_model, "attribute '{}' is defined twice",
          escape(name));
  }
}

Node GraphReader::node(std::string_view bytes, int64_t index, const OpsetImports& imports) {
  count_part();
  Node out;
  out.index = index;
  try {
    std::vector<std::string_view> attributes;
    ProtoMessage message(place_, "NodeProto", bytes);
    while (message.next()) {
      switch (message.tag()) {
        case 1:
          out.inputs.push_back(message.name());
          break;
        case 2:
          out.outputs.push_back(message.name());
          break;
        case 3:
          out.name = message.name();
          break;
        case 4:
          out.op_type = message.name();
          break;
        case 5:
          attributes.push_back(message.text());
          break;
        case 7:
          out.domain = canonical_domain(message.name());
          break;
        case 8:
          out.overload = message.name();
          break;
        default:
          message.skip();
      }
    }
    check(!out.op_type.empty(), ErrorKind::invalid_model, "node {} has no op type", index);
    read_attributes(attributes, out, imports);
  } catch (Error& error) {
    error.note(node_note(origin_, imports, out));
    throw;
  }
  return out;
}

Graph GraphReader::graph(std::string_view bytes, const OpsetImports& imports) {
  Graph out;
  ProtoMessage message(place_, "GraphProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        out.nodes.push_back(node(message.text(), static_cast<int64_t>(out.nodes.size()), imports));
        break;
      case 2:
        out.name = message.name();
        break;
      case 5:
        count_part();
        out.initializers.push_back(read_tensor_data(place_, message.text(), source_));
        break;
      case 10:
        out.description = message.name();
        break;
      case 11:
        out.inputs.push_back(value_info(message.text()));
        break;
      case 12:
        out.outputs.push_back(value_info(message.text()));
        break;
      case 13:
        out.value_infos.push_back(value_info(message.text()));
        break;
      case 15:
        out.initializers.push_back(sparse(message.text()));
        break;
      default:
        message.skip();
    }
  }
  return out;
}

}  // namespace lathe::onnx
