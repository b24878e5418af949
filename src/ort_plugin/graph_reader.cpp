// SPDX-License-Identifier: MIT
#include "ort_plugin/graph_reader.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/file_map.h"
#include "import/onnx/external_data.h"
#include "import/onnx/node_support.h"
#include "import/onnx/string_arena.h"
#include "import/onnx/well_formed.h"
#include "ort_plugin/constants.h"

namespace lathe::ort_plugin {
namespace {

using onnx::Attribute;
using onnx::Graph;
using onnx::Model;
using onnx::TensorData;
using onnx::ValueInfo;
using onnx::ValueType;

// Releases an object of the host.
template <class T, class Release>
auto hold(T* object, Release release) {
  return std::unique_ptr<T, Release>(object, release);
}

// A list of the host: its length by `count`, its entries by `list`.
template <class T, class Count, class List>
std::vector<const T*> list_of(const Host& host, Count count, List list) {
  size_t size = 0;
  host.check(count(&size));
  std::vector<const T*> out(size);
  if (size > 0) host.check(list(out.data(), size));
  return out;
}

}  // namespace

ElementType element_of(ONNXTensorElementDataType type, std::string_view what) {
  // The numbers up to 23 (4-bit floats) are those of ONNX's TensorProto. Those of later hosts
  // differ.
  constexpr int kLastShared = 23;
  constexpr int kU2 = 24;
  constexpr int kI2 = 25;
  constexpr int kF8e8m0 = 26;
  std::optional<ElementType> element;
  if (type <= kLastShared) element = element_type_from_onnx(static_cast<int64_t>(type));
  if (type == kU2) element = ElementType::u2;
  if (type == kI2) element = ElementType::i2;
  if (type == kF8e8m0) element = ElementType::f8e8m0;
  check(element.has_value(), ErrorKind::unsupported,
        "'{}' has element type {} of ONNX Runtime, which Lathe's execution provider does not know",
        escape(what), static_cast<int>(type));
  return *element;
}

std::vector<const OrtValueInfo*> inputs_of(const Host& host, const OrtNode& node) {
  return list_of<OrtValueInfo>(
      host, [&](size_t* count) { return host->Node_GetNumInputs(&node, count); },
      [&](auto** out, size_t count) { return host->Node_GetInputs(&node, out, count); });
}

std::vector<const OrtValueInfo*> outputs_of(const Host& host, const OrtNode& node) {
  return list_of<OrtValueInfo>(
      host, [&](size_t* count) { return host->Node_GetNumOutputs(&node, count); },
      [&](auto** out, size_t count) { return host->Node_GetOutputs(&node, out, count); });
}

std::vector<std::string> names_of(const Host& host,
                                  const std::vector<const OrtValueInfo*>& values) {
  std::vector<std::string> out;
  for (const OrtValueInfo* value : values) {
    const char* name = "";
    if (value != nullptr) host.check(host->GetValueInfoName(value, &name));
    out.emplace_back(name);
  }
  return out;
}

GraphReader::GraphReader(const Host& host, std::string folder,
                         const std::set<std::string>* unranked)
    : host_(host),
      folder_path_(std::move(folder)),
      unranked_(unranked),
      names_(std::make_shared<onnx::StringArena>()),
      long_texts_(std::make_shared<std::vector<std::shared_ptr<const void>>>()) {}

GraphReader::~GraphReader() = default;

std::string_view GraphReader::keep(std::string_view text) {
  const std::string_view kept = names_->keep(text);
  if (kept.data() != text.data() || text.empty()) return kept;
  Bytes copy(text.size());
  std::memcpy(copy.data(), text.data(), text.size());
  return keep(std::move(copy));
}

std::string_view GraphReader::keep(Bytes bytes) {
  const std::string_view kept = names_->keep(bytes.text());
  if (kept.data() == bytes.data()) long_texts_->push_back(bytes.owner());
  return kept;
}

std::string_view GraphReader::name_of(const OrtValueInfo* info) {
  if (info == nullptr) return {};
  const char* name = "";
  host_.check(host_->GetValueInfoName(info, &name));
  return keep(name);
}

void GraphReader::start(const OrtGraph& graph, Model& model) {
  const char* path = "";
  host_.check(host_->Graph_GetModelPath(&graph, &path));
  const std::string file = path != nullptr ? path : "";
  model.origin = file.empty() ? "<memory>" : file;
  const std::string folder = file.empty() ? folder_path_ : parent_folder(file);
  if (!file.empty() || !folder.empty()) {
    folder_ = std::make_shared<onnx::ExternalFolder>(folder.empty() ? "." : folder);
  }
  host_.check(host_->Graph_GetOnnxIRVersion(&graph, &model.ir_version));
  size_t count = 0;
  host_.check(host_->Graph_GetNumOperatorSets(&graph, &count));
  std::vector<const char*> domains(count);
  std::vector<int64_t> versions(count);
  if (count > 0) {
    host_.check(host_->Graph_GetOperatorSets(&graph, domains.data(), versions.data(), count));
  }
  for (size_t i = 0; i < count; ++i) {
    model.imports.push_back({onnx::canonical_domain(keep(domains[i])), versions[i]});
  }
  model.owners = {names_, long_texts_, folder_};
}

ReadGraph GraphReader::read(const OrtGraph& graph) {
  ReadGraph out;
  start(graph, out.model);
  out.model.graph = read_graph(graph, &out.nodes);
  std::set<std::string_view> inputs;
  for (const ValueInfo& input : out.model.graph.inputs) inputs.insert(input.name);
  for (const TensorData& tensor : out.model.graph.initializers) {
    if (inputs.contains(tensor.name)) out.overridable.emplace(tensor.name);
  }
  out.reads_outer = add_outer_values(out.nodes, out.model.graph);
  onnx::make_well_formed(out.model);
  return out;
}

Model GraphReader::read_node(const OrtGraph& around, const OrtNode& node) {
  Model model;
  start(around, model);
  model.graph.name = "node";
  model.graph.nodes.push_back(read_node(node));
  add_outer_values({&node}, model.graph);
  for (const OrtValueInfo* output : outputs_of(host_, node)) {
    if (output != nullptr) model.graph.outputs.push_back(read_value(*output));
  }
  onnx::make_well_formed(model);
  return model;
}

Graph GraphReader::read_graph(const OrtGraph& graph, std::vector<const OrtNode*>* nodes) {
  check(depth_ < onnx::kMaxGraphDepth, ErrorKind::invalid_model,
        "subgraphs nest deeper than {} levels", onnx::kMaxGraphDepth);
  ++depth_;
  Graph out;
  const char* name = "";
  host_.check(host_->Graph_GetName(&graph, &name));
  out.name = keep(name != nullptr ? name : "");
  const auto inputs = list_of<OrtValueInfo>(
      host_, [&](size_t* count) { return host_->Graph_GetNumInputs(&graph, count); },
      [&](auto** list, size_t count) { return host_->Graph_GetInputs(&graph, list, count); });
  for (const OrtValueInfo* input : inputs) out.inputs.push_back(read_value(*input));
  const auto outputs = list_of<OrtValueInfo>(
      host_, [&](size_t* count) { return host_->Graph_GetNumOutputs(&graph, count); },
      [&](auto** list, size_t count) { return host_->Graph_GetOutputs(&graph, list, count); });
  for (const OrtValueInfo* output : outputs) out.outputs.push_back(read_value(*output));
  const auto initializers = list_of<OrtValueInfo>(
      host_, [&](size_t* count) { return host_->Graph_GetNumInitializers(&graph, count); },
      [&](auto** list, size_t count) { return host_->Graph_GetInitializers(&graph, list, count); });
  for (const OrtValueInfo* tensor : initializers) {
    out.initializers.push_back(read_initializer(*tensor, name_of(tensor)));
  }
  const auto listed = list_of<OrtNode>(
      host_, [&](size_t* count) { return host_->Graph_GetNumNodes(&graph, count); },
      [&](auto** list, size_t count) { return host_->Graph_GetNodes(&graph, list, count); });
  for (const OrtNode* node : listed) {
    out.nodes.push_back(read_node(*node));
    out.nodes.back().index = static_cast<int64_t>(out.nodes.size()) - 1;
    for (const OrtValueInfo* output : outputs_of(host_, *node)) {
      if (output != nullptr) out.value_infos.push_back(read_value(*output));
    }
  }
  if (nodes != nullptr) *nodes = listed;
  --depth_;
  return out;
}

bool GraphReader::add_outer_values(const std::vector<const OrtNode*>& nodes, Graph& graph) {
  std::unordered_set<std::string_view> known;
  for (const ValueInfo& input : graph.inputs) known.insert(input.name);
  for (const TensorData& tensor : graph.initializers) known.insert(tensor.name);
  for (const onnx::Node& node : graph.nodes) {
    for (const std::string_view output : node.outputs) known.insert(output);
  }
  bool found = false;
  for (const OrtNode* node : nodes) {
    std::vector<const OrtValueInfo*> values = inputs_of(host_, *node);
    const auto captured = list_of<OrtValueInfo>(
        host_, [&](size_t* count) { return host_->Node_GetNumImplicitInputs(node, count); },
        [&](auto** out, size_t count) { return host_->Node_GetImplicitInputs(node, out, count); });
    values.insert(values.end(), captured.begin(), captured.end());
    for (const OrtValueInfo* value : values) {
      const std::string_view name = name_of(value);
      if (name.empty() || !known.insert(name).second) continue;
      found = true;
      bool constant = false;
      host_.check(host_->ValueInfo_IsConstantInitializer(value, &constant));
      if (constant) {
        graph.initializers.push_back(read_initializer(*value, name));
      } else {
        graph.inputs.push_back(read_value(*value));
      }
    }
  }
  return found;
}

onnx::Node GraphReader::read_node(const OrtNode& node) {
  onnx::Node out;
  const char* text = "";
  host_.check(host_->Node_GetName(&node, &text));
  out.name = keep(text);
  host_.check(host_->Node_GetOperatorType(&node, &text));
  out.op_type = keep(text);
  host_.check(host_->Node_GetDomain(&node, &text));
  out.domain = onnx::canonical_domain(keep(text));
  for (const OrtValueInfo* input : inputs_of(host_, node)) out.inputs.push_back(name_of(input));
  for (const OrtValueInfo* output : outputs_of(host_, node)) out.outputs.push_back(name_of(output));
  const auto attributes = list_of<OrtOpAttr>(
      host_, [&](size_t* count) { return host_->Node_GetNumAttributes(&node, count); },
      [&](auto** list, size_t count) { return host_->Node_GetAttributes(&node, list, count); });
  size_t graphs = 0;
  host_.check(host_->Node_GetNumSubgraphs(&node, &graphs));
  std::vector<const OrtGraph*> bodies(graphs);
  std::vector<const char*> names(graphs);
  if (graphs > 0) {
    host_.check(host_->Node_GetSubgraphs(&node, bodies.data(), graphs, names.data()));
  }
  for (const OrtOpAttr* attribute : attributes) {
    const char* name = "";
    host_.check(host_->OpAttr_GetName(attribute, &name));
    const bool is_body = std::any_of(
        names.begin(), names.end(), [&](const char* body) { return std::strcmp(body, name) == 0; });
    if (!is_body) out.attributes.push_back(read_attribute(*attribute));
  }
  for (size_t i = 0; i < graphs; ++i) {
    Attribute body;
    body.name = keep(names[i]);
    body.value = std::make_shared<Graph>(read_graph(*bodies[i], nullptr));
    out.attributes.push_back(std::move(body));
  }
  return out;
}

GraphReader::Bytes GraphReader::read_bytes(const OrtOpAttr& attribute, OrtOpAttrType type) {
  size_t size = 0;
  // The first call reports the size as a failure.
  OrtStatus* status = host_->ReadOpAttr(&attribute, type, nullptr, 0, &size);
  if (status == nullptr && size == 0) return Bytes(0);
  if (status != nullptr) host_->ReleaseStatus(status);
  Bytes out(size);
  host_.check(host_->ReadOpAttr(&attribute, type, out.data(), size, &size));
  out.shorten(size);
  return out;
}

namespace {

template <class T>
std::vector<T> elements_of(std::string_view bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

}  // namespace

Attribute GraphReader::read_attribute(const OrtOpAttr& attribute) {
  Attribute out;
  const char* name = "";
  host_.check(host_->OpAttr_GetName(&attribute, &name));
  out.name = keep(name);
  OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
  // Kinds that the interface lacks (types, sparse tensors) stay empty: an importer that reads one
  // reports it by name.
  OrtStatus* status = host_->OpAttr_GetType(&attribute, &type);
  if (status != nullptr) {
    host_->ReleaseStatus(status);
    return out;
  }
  switch (type) {
    case ORT_OP_ATTR_INT: {
      int64_t value = 0;
      size_t size = 0;
      host_.check(host_->ReadOpAttr(&attribute, type, &value, sizeof value, &size));
      out.value = value;
      break;
    }
    case ORT_OP_ATTR_FLOAT: {
      float value = 0;
      size_t size = 0;
      host_.check(host_->ReadOpAttr(&attribute, type, &value, sizeof value, &size));
      out.value = value;
      break;
    }
    case ORT_OP_ATTR_INTS:
      out.value = elements_of<int64_t>(read_bytes(attribute, type).text());
      break;
    case ORT_OP_ATTR_FLOATS:
      out.value = elements_of<float>(read_bytes(attribute, type).text());
      break;
    case ORT_OP_ATTR_STRING:
      if (skips_contexts_ && out.name == kContextAttribute) break;
      out.value = keep(read_bytes(attribute, type));
      break;
    case ORT_OP_ATTR_STRINGS: {
      // Each ends with a zero byte.
      std::vector<std::string_view> texts;
      const Bytes held = read_bytes(attribute, type);
      const std::string_view bytes = held.text();
      for (size_t at = 0; at < bytes.size();) {
        const size_t end = std::min(bytes.find('\0', at), bytes.size());
        texts.push_back(keep(bytes.substr(at, end - at)));
        at = end + 1;
      }
      out.value = std::move(texts);
      break;
    }
    case ORT_OP_ATTR_TENSOR: {
      OrtValue* value = nullptr;
      host_.check(host_->OpAttr_GetTensorAttributeAsOrtValue(&attribute, &value));
      const auto held = hold(value, [&](OrtValue* v) { host_->ReleaseValue(v); });
      TensorData tensor = read_tensor(*value, out.name);
      own_constant(tensor);
      out.value = std::make_shared<const TensorData>(std::move(tensor));
      break;
    }
    default:
      break;
  }
  return out;
}

TensorData GraphReader::read_tensor(const OrtValue& value, std::string_view name) {
  TensorData out;
  out.name = name;
  OrtTensorTypeAndShapeInfo* info = nullptr;
  host_.check(host_->GetTensorTypeAndShape(&value, &info));
  const auto held =
      hold(info, [&](OrtTensorTypeAndShapeInfo* i) { host_->ReleaseTensorTypeAndShapeInfo(i); });
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  host_.check(host_->GetTensorElementType(info, &type));
  out.type = element_of(type, name);
  size_t rank = 0;
  host_.check(host_->GetDimensionsCount(info, &rank));
  out.dims.resize(rank);
  if (rank > 0) host_.check(host_->GetDimensions(info, out.dims.data(), rank));
  const int64_t count = element_count(out.dims);
  if (out.type == ElementType::string) {
    auto texts = std::make_shared<std::vector<std::string>>();
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      size_t size = 0;
      host_.check(host_->GetStringTensorElementLength(&value, i, &size));
      std::string& text = texts->emplace_back(size, '\0');
      host_.check(host_->GetStringTensorElement(&value, size, i, text.data()));
    }
    out.strings.assign(texts->begin(), texts->end());
    out.owner = texts;
    return out;
  }
  const void* data = nullptr;
  host_.check(host_->GetTensorData(&value, &data));
  const auto bytes = static_cast<size_t>(bytes_for(out.type, count));
  out.bytes = {static_cast<const std::byte*>(data), bytes};
  return out;
}

TensorData GraphReader::read_initializer(const OrtValueInfo& info, std::string_view name) {
  OrtExternalInitializerInfo* external = nullptr;
  host_.check(host_->ValueInfo_GetExternalInitializerInfo(&info, &external));
  if (external != nullptr) {
    const auto held = hold(
        external, [&](OrtExternalInitializerInfo* e) { host_->ReleaseExternalInitializerInfo(e); });
    const ValueInfo declared = read_value(info);
    TensorData out;
    out.name = name;
    check(declared.type.element.has_value() && declared.type.extents.has_value(),
          ErrorKind::invalid_model, "initialiser '{}' has no type", escape(name));
    out.type = *declared.type.element;
    for (const onnx::Extent& extent : *declared.type.extents) out.dims.push_back(extent.value);
    const int64_t offset = host_->ExternalInitializerInfo_GetFileOffset(external);
    const std::string offset_text = std::to_string(offset);
    const std::string length = std::to_string(host_->ExternalInitializerInfo_GetByteSize(external));
    const std::string path = host_->ExternalInitializerInfo_GetFilePath(external);
    check(folder_ != nullptr, ErrorKind::invalid_argument,
          "initialiser '{}' lies in '{}', but the model has no path: set "
          "'session.model_external_initializers_file_folder_path'",
          escape(name), escape(path));
    // Checks that the location stays in the folder.
    out.external = onnx::parse_external_data(
        {{"location", path}, {"offset", offset_text}, {"length", length}}, name, folder_);
    out.external->location = keep(path);
    return out;
  }
  const OrtValue* value = nullptr;
  host_.check(host_->ValueInfo_GetInitializerValue(&info, &value));
  check(value != nullptr, ErrorKind::invalid_model, "initialiser '{}' has no value", escape(name));
  return read_tensor(*value, name);
}

ValueInfo GraphReader::read_value(const OrtValueInfo& info) {
  ValueInfo out;
  out.name = name_of(&info);
  const OrtTypeInfo* type = nullptr;
  host_.check(host_->GetValueInfoTypeInfo(&info, &type));
  out.type = read_type(type, out.name);
  if (unranked_ != nullptr && unranked_->contains(std::string(out.name))) {
    out.type.extents.reset();
  }
  return out;
}

ValueType GraphReader::read_type(const OrtTypeInfo* info, std::string_view name) {
  ValueType out;
  if (info == nullptr) return out;
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  host_.check(host_->GetOnnxTypeFromTypeInfo(info, &kind));
  const auto release = [&](OrtTypeInfo* type) { host_->ReleaseTypeInfo(type); };
  if (kind == ONNX_TYPE_TENSOR) return read_tensor_type(*info, name);
  OrtTypeInfo* item = nullptr;
  if (kind == ONNX_TYPE_SEQUENCE) {
    const OrtSequenceTypeInfo* sequence = nullptr;
    host_.check(host_->CastTypeInfoToSequenceTypeInfo(info, &sequence));
    host_.check(host_->GetSequenceElementType(sequence, &item));
    out.kind = ValueType::Kind::sequence;
  } else if (kind == ONNX_TYPE_OPTIONAL) {
    const OrtOptionalTypeInfo* optional = nullptr;
    host_.check(host_->CastTypeInfoToOptionalTypeInfo(info, &optional));
    host_.check(host_->GetOptionalContainedTypeInfo(optional, &item));
    out.kind = ValueType::Kind::optional;
  } else if (kind == ONNX_TYPE_MAP) {
    const OrtMapTypeInfo* map = nullptr;
    host_.check(host_->CastTypeInfoToMapTypeInfo(info, &map));
    ONNXTensorElementDataType key = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    host_.check(host_->GetMapKeyType(map, &key));
    host_.check(host_->GetMapValueType(map, &item));
    out.kind = ValueType::Kind::map;
    out.element = element_of(key, name);
  } else {
    return out;
  }
  const auto held = hold(item, release);
  out.item = std::make_shared<const ValueType>(read_type(item, name));
  return out;
}

ValueType GraphReader::read_tensor_type(const OrtTypeInfo& info, std::string_view name) {
  ValueType out;
  out.kind = ValueType::Kind::tensor;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  host_.check(host_->CastTypeInfoToTensorInfo(&info, &tensor));
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  host_.check(host_->GetTensorElementType(tensor, &type));
  if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) out.element = element_of(type, name);
  size_t rank = 0;
  host_.check(host_->GetDimensionsCount(tensor, &rank));
  std::vector<int64_t> dims(rank);
  std::vector<const char*> symbols(rank, nullptr);
  if (rank > 0) {
    host_.check(host_->GetDimensions(tensor, dims.data(), rank));
    host_.check(host_->GetSymbolicDimensions(tensor, symbols.data(), rank));
  }
  out.extents.emplace();
  for (size_t axis = 0; axis < rank; ++axis) {
    const char* symbol = symbols[axis] != nullptr ? symbols[axis] : "";
    out.extents->push_back({dims[axis], keep(symbol), {}});
  }
  return out;
}

}  // namespace lathe::ort_plugin
