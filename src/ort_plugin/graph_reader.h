// SPDX-License-Identifier: MIT
// Reads an OrtGraph into the importer's structs, without protobuf or files between.
#pragma once

#include <memory>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "import/onnx/graph_view.h"
#include "ort_plugin/host.h"

namespace lathe::onnx {
class ExternalFolder;
class StringArena;
}  // namespace lathe::onnx

namespace lathe::ort_plugin {

// The attribute of a node EPContext that has the compiled group or its file's name.
inline constexpr std::string_view kContextAttribute = "ep_cache_context";

struct ReadGraph {
  onnx::Model model;                  // well-formed
  std::vector<const OrtNode*> nodes;  // by Node::index
  std::set<std::string> overridable;  // initialisers that are inputs too
  bool reads_outer = false;           // a body that uses values of the graph around it
};

// Constants are views of the host's memory, valid during the host's call; those in files are mapped
// from them.
class GraphReader {
 public:
  // `folder`: of external data of models without a path. `unranked`: tensors of unknown rank, which
  // the host describes as scalars.
  GraphReader(const Host& host, std::string folder,
              const std::set<std::string>* unranked = nullptr);
  ~GraphReader();
  // Compiled contexts, which may be as large as all weights, stay empty.
  void skip_contexts() { skips_contexts_ = true; }

  // InvalidModel or Unsupported, naming the value or attribute that Lathe has no form for. Values
  // of graphs around a body become its inputs.
  ReadGraph read(const OrtGraph& graph);
  // A model of one node and its subgraphs; `around` is its graph.
  onnx::Model read_node(const OrtGraph& around, const OrtNode& node);
  onnx::ValueInfo read_value(const OrtValueInfo& info);

 private:
  // Bytes of an attribute, aligned as tensors are: a compiled context is used where it is.
  class Bytes {
   public:
    explicit Bytes(size_t size)
        : memory_(static_cast<char*>(::operator new(size, kAlignment)),
                  [](char* memory) { ::operator delete(memory, kAlignment); }),
          size_(size) {}
    char* data() { return memory_.get(); }
    std::string_view text() const { return {memory_.get(), size_}; }
    void shorten(size_t size) { size_ = size; }
    std::shared_ptr<const void> owner() const { return memory_; }

   private:
    static constexpr std::align_val_t kAlignment{64};
    std::shared_ptr<char> memory_;
    size_t size_;
  };
  void start(const OrtGraph& graph, onnx::Model& model);
  onnx::Graph read_graph(const OrtGraph& graph, std::vector<const OrtNode*>* nodes);
  onnx::Node read_node(const OrtNode& node);
  onnx::Attribute read_attribute(const OrtOpAttr& attribute);
  Bytes read_bytes(const OrtOpAttr& attribute, OrtOpAttrType type);
  onnx::TensorData read_tensor(const OrtValue& value, std::string_view name);
  onnx::TensorData read_initializer(const OrtValueInfo& info, std::string_view name);
  onnx::ValueType read_type(const OrtTypeInfo* info, std::string_view name);
  onnx::ValueType read_tensor_type(const OrtTypeInfo& info, std::string_view name);
  // Declares outer values that the nodes read.
  bool add_outer_values(const std::vector<const OrtNode*>& nodes, onnx::Graph& graph);
  std::string_view name_of(const OrtValueInfo* info);  // "": absent
  std::string_view keep(std::string_view text);
  std::string_view keep(Bytes bytes);

  const Host& host_;
  std::string folder_path_;
  const std::set<std::string>* unranked_;
  std::shared_ptr<onnx::StringArena> names_;
  std::shared_ptr<std::vector<std::shared_ptr<const void>>> long_texts_;
  std::shared_ptr<onnx::ExternalFolder> folder_;
  bool skips_contexts_ = false;
  int depth_ = 0;
};

// The names of a list of values; absent ones are "".
std::vector<std::string> names_of(const Host& host, const std::vector<const OrtValueInfo*>& values);
std::vector<const OrtValueInfo*> inputs_of(const Host& host, const OrtNode& node);
std::vector<const OrtValueInfo*> outputs_of(const Host& host, const OrtNode& node);

// The element type of a number in the C interface. Unsupported for one that this library lacks.
ElementType element_of(ONNXTensorElementDataType type, std::string_view what);

}  // namespace lathe::ort_plugin
