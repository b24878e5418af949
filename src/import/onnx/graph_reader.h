// SPDX-License-Identifier: MIT
// Reads graphs, nodes, attributes and types from their protobuf messages.
#pragma once

#include <string_view>

#include "import/onnx/graph_view.h"
#include "import/onnx/proto_message.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {

class GraphReader {
 public:
  GraphReader(ProtoPlace& place, const TensorSource& source, std::string_view origin)
      : place_(place), source_(source), origin_(origin) {}

  // `imports` is used only in messages.
  Graph graph(std::string_view bytes, const OpsetImports& imports);
  Node node(std::string_view bytes, int64_t index, const OpsetImports& imports);
  Attribute attribute(std::string_view bytes, const OpsetImports& imports);

 private:
  void read_attributes(const std::vector<std::string_view>& messages, Node& node,
                       const OpsetImports& imports);
  void count_part();
  ValueInfo value_info(std::string_view bytes);
  std::shared_ptr<const TensorData> tensor(std::string_view bytes);
  TensorData sparse(std::string_view bytes);
  std::shared_ptr<Graph> subgraph(std::string_view bytes, const OpsetImports& imports);

  ProtoPlace& place_;
  const TensorSource& source_;
  std::string_view origin_;
  int depth_ = 0;
  int64_t parts_ = 0;
  int64_t sparse_bytes_ = 0;  // of dense copies
};

}  // namespace lathe::onnx
