// SPDX-License-Identifier: MIT
// ONNX graphs that the caller describes through callbacks, as the importer's structs.
#include <cstring>
#include <deque>

#include "base/interrupt.h"
#include "capi/handles.h"
#include "capi/load_options.h"
#include "import/onnx/external_data.h"
#include "import/onnx/node_support.h"
#include "import/onnx/tensor_proto.h"
#include "import/onnx/well_formed.h"

namespace lathe::capi {
namespace {

using onnx::Attribute;
using onnx::Graph;
using onnx::Node;
using onnx::TensorData;
using onnx::ValueInfo;
using onnx::ValueType;

// Converts one source; everything but the bytes of tensors is copied.
class SourceReader {
 public:
  SourceReader(const lathe_onnx_source& source, const lathe_load_options& options)
      : source_(source),
        strings_(std::make_shared<std::deque<std::string>>()),
        folder_(std::make_shared<onnx::ExternalFolder>(
            options.folder != nullptr ? options.folder : "", data_files(options, nullptr))) {
    if (options.release == nullptr) return;
    bytes_owner_ = {this, [release = options.release,
                           context = options.release_context](const void*) { release(context); }};
  }

  onnx::Model read(const char* name) {
    onnx::Model model;
    model.origin = name != nullptr ? name : "<memory>";
    model.ir_version = source_.ir_version != 0 ? source_.ir_version : onnx::kIrVersion;
    model.imports = opsets(source_.opsets, source_.opset_count);
    for (size_t i = 0; i < source_.function_count; ++i) model.functions.push_back(function(i));
    model.producer = keep(source_.producer);
    model.producer_version = keep(source_.producer_version);
    const auto pairs = names(source_.metadata, 2 * source_.metadata_count, "source->metadata");
    for (size_t i = 0; i < pairs.size(); i += 2) {
      model.metadata.emplace_back(pairs[i], pairs[i + 1]);
    }
    model.graph = graph(source_.graph);
    model.owners = {strings_, folder_};
    onnx::make_well_formed(model);
    return model;
  }

 private:
  // Calls a callback on a struct of this version.
  template <class Struct, class Callback, class... Arguments>
  Struct ask(Callback callback, const char* what, Arguments... arguments) {
    check(callback != nullptr, ErrorKind::invalid_argument, "callback '{}' of the source is NULL",
          what);
    Struct out{};
    out.size = sizeof out;
    const int result = callback(source_.context, arguments..., &out);
    check(result == 0, ErrorKind::invalid_argument, "callback '{}' of the source failed with {}",
          what, result);
    return out;
  }

  std::string_view keep(const char* text) {
    return text == nullptr ? std::string_view() : strings_->emplace_back(text);
  }
  std::string_view keep(lathe_text text) {
    return strings_->emplace_back(text.bytes == 0 ? "" : &demand(text.data, "text"), text.bytes);
  }
  template <class T>
  static std::span<const T> list(const T* first, size_t count, const char* what) {
    check(first != nullptr || count == 0, ErrorKind::invalid_argument, "'{}' is NULL", what);
    return {first, count};
  }
  std::vector<std::string_view> names(const char* const* first, size_t count, const char* what) {
    std::vector<std::string_view> out;
    for (const char* name : list(first, count, what)) out.push_back(keep(name));
    return out;
  }
  onnx::OpsetImports opsets(const lathe_onnx_opset* first, size_t count) {
    onnx::OpsetImports out;
    for (const lathe_onnx_opset& opset : list(first, count, "opsets")) {
      out.push_back({onnx::canonical_domain(keep(opset.domain)), opset.version});
    }
    return out;
  }

  static Dims dims(const int64_t* first, int32_t rank, std::string_view name) {
    check(rank >= 0 && rank <= kMaxRank, ErrorKind::unsupported,
          "'{}' has rank {}, expected 0 to {}", escape(name), rank, kMaxRank);
    const auto sizes = list(first, static_cast<size_t>(rank), "dims");
    return {sizes.begin(), sizes.end()};
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxGraphDepth
  ValueType type(const lathe_onnx_type* given, std::string_view name, int depth = 0) {
    ValueType out;
    if (given == nullptr) return out;
    check(depth < onnx::kMaxGraphDepth, ErrorKind::invalid_argument,
          "the type of '{}' nests deeper than {} levels", escape(name), onnx::kMaxGraphDepth);
    const lathe_onnx_type known = capi::known(given);
    const auto element = [&]() -> std::optional<ElementType> {
      if (known.element == 0) return std::nullopt;
      return onnx::element_type_of(known.element, fmt::format("'{}'", escape(name)));
    };
    switch (known.kind) {
      case LATHE_VALUE_NONE:
        return out;
      case LATHE_VALUE_TENSOR: {
        out.kind = ValueType::Kind::tensor;
        out.element = element();
        if (known.rank < 0) return out;
        out.extents.emplace();
        const Dims sizes = dims(known.dims, known.rank, name);
        for (size_t axis = 0; axis < sizes.size(); ++axis) {
          const char* symbol = known.symbols != nullptr ? known.symbols[axis] : nullptr;
          out.extents->push_back({sizes[axis], keep(symbol), {}});
        }
        return out;
      }
      case LATHE_VALUE_SEQUENCE:
        out.kind = ValueType::Kind::sequence;
        break;
      case LATHE_VALUE_OPTIONAL:
        out.kind = ValueType::Kind::optional;
        break;
      case LATHE_VALUE_MAP:
        out.kind = ValueType::Kind::map;
        out.element = element();
        break;
      default:
        fail(ErrorKind::invalid_argument, "the type of '{}' has kind {}", escape(name), known.kind);
    }
    out.item = std::make_shared<const ValueType>(type(known.item, name, depth + 1));
    return out;
  }

  ValueInfo value(const lathe_onnx_value& given) {
    ValueInfo out;
    out.name = keep(&demand(given.name, "value->name"));
    out.type = type(given.type, out.name);
    return out;
  }

  TensorData tensor(const lathe_onnx_tensor& given, std::string_view what) {
    TensorData out;
    out.name = given.name != nullptr ? keep(given.name) : what;
    out.type = onnx::element_type_of(given.type, fmt::format("'{}'", escape(out.name)));
    out.dims = dims(given.dims, given.rank, out.name);
    const int64_t count = onnx::checked_count(out.type, out.dims, out.name);
    if (out.type == ElementType::string) {
      const auto texts = list(given.strings, static_cast<size_t>(count), "tensor->strings");
      for (const lathe_text& text : texts) out.strings.push_back(keep(text));
      out.owner = strings_;
      return out;
    }
    const auto bytes = static_cast<size_t>(bytes_for(out.type, count));
    if (given.location != nullptr) {
      const std::string offset = std::to_string(given.offset);
      const std::string length = std::to_string(bytes);
      const std::string_view location = keep(given.location);
      out.external = onnx::parse_external_data(
          {{"location", location}, {"offset", offset}, {"length", length}}, out.name, folder_);
      return out;
    }
    check(given.bytes == bytes, ErrorKind::invalid_model,
          "tensor '{}' has {} bytes, but its type and shape need {}", escape(out.name), given.bytes,
          bytes);
    if (bytes == 0) return out;
    const auto* data = &demand(static_cast<const std::byte*>(given.data), "tensor->data");
    if (bytes_owner_ != nullptr) {
      out.bytes = {data, bytes};
      out.owner = bytes_owner_;
      return out;
    }
    const Tensor copy(out.type, out.dims);
    std::memcpy(copy.data(), data, bytes);
    out.bytes = {static_cast<const std::byte*>(copy.data()), bytes};
    out.owner = copy.owner();
    return out;
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxGraphDepth
  Attribute attribute(const lathe_onnx_attribute& given) {
    Attribute out;
    out.name = keep(&demand(given.name, "attribute->name"));
    out.reference = keep(given.reference);
    const size_t count = given.count;
    const auto one = [&](const auto* first, const char* what) -> const auto& {
      check(count == 1, ErrorKind::invalid_argument, "attribute '{}' has {} values, expected 1",
            escape(out.name), count);
      return list(first, 1, what)[0];
    };
    const auto tensor_of = [&](const lathe_onnx_tensor* value) {
      const lathe_onnx_tensor tensor_value = capi::known(&demand(value, "attribute->tensors[]"));
      return std::make_shared<const TensorData>(tensor(tensor_value, out.name));
    };
    // Handles first: reading a graph calls back again.
    const bool graphs = given.kind == LATHE_ONNX_GRAPH || given.kind == LATHE_ONNX_GRAPHS;
    std::vector<const void*> bodies;
    if (graphs) {
      const auto handles = list(given.graphs, count, "attribute->graphs");
      bodies.assign(handles.begin(), handles.end());
    }
    if (!out.reference.empty()) return out;
    switch (given.kind) {
      case LATHE_ONNX_FLOAT:
        out.value = one(given.floats, "attribute->floats");
        break;
      case LATHE_ONNX_INT:
        out.value = one(given.ints, "attribute->ints");
        break;
      case LATHE_ONNX_STRING:
        out.value = keep(one(given.strings, "attribute->strings"));
        break;
      case LATHE_ONNX_TENSOR:
        out.value = tensor_of(one(given.tensors, "attribute->tensors"));
        break;
      case LATHE_ONNX_GRAPH:
        check(count == 1, ErrorKind::invalid_argument, "attribute '{}' has {} values, expected 1",
              escape(out.name), count);
        out.value = std::make_shared<Graph>(graph(bodies[0]));
        break;
      case LATHE_ONNX_FLOATS: {
        const auto values = list(given.floats, count, "attribute->floats");
        out.value = std::vector<float>(values.begin(), values.end());
        break;
      }
      case LATHE_ONNX_INTS: {
        const auto values = list(given.ints, count, "attribute->ints");
        out.value = std::vector<int64_t>(values.begin(), values.end());
        break;
      }
      case LATHE_ONNX_STRINGS: {
        std::vector<std::string_view> texts;
        for (const lathe_text& text : list(given.strings, count, "attribute->strings")) {
          texts.push_back(keep(text));
        }
        out.value = std::move(texts);
        break;
      }
      case LATHE_ONNX_TENSORS: {
        std::vector<std::shared_ptr<const TensorData>> tensors;
        for (const auto* value : list(given.tensors, count, "attribute->tensors")) {
          tensors.push_back(tensor_of(value));
        }
        out.value = std::move(tensors);
        break;
      }
      case LATHE_ONNX_GRAPHS: {
        std::vector<std::shared_ptr<Graph>> values;
        for (const void* body : bodies) values.push_back(std::make_shared<Graph>(graph(body)));
        out.value = std::move(values);
        break;
      }
      case LATHE_ONNX_TYPE:
        out.value = std::make_shared<const ValueType>(type(given.type, out.name));
        break;
      default:
        break;  // an operator that reads it names it
    }
    return out;
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxGraphDepth
  std::vector<Node> nodes(const void* handle, size_t count) {
    std::vector<Node> out;
    for (size_t i = 0; i < count; ++i) {
      const lathe_onnx_node given = ask<lathe_onnx_node>(source_.node, "node", handle, i);
      Node& node = out.emplace_back();
      node.name = keep(given.name);
      node.op_type = keep(&demand(given.op_type, "node->op_type"));
      node.domain = onnx::canonical_domain(keep(given.domain));
      node.overload = keep(given.overload);
      node.inputs = names(given.inputs, given.input_count, "node->inputs");
      node.outputs = names(given.outputs, given.output_count, "node->outputs");
      node.index = static_cast<int64_t>(i);
      for (size_t a = 0; a < given.attribute_count; ++a) {
        node.attributes.push_back(
            attribute(ask<lathe_onnx_attribute>(source_.attribute, "attribute", handle, i, a)));
      }
    }
    return out;
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxGraphDepth
  Graph graph(const void* handle) {
    check(depth_ < onnx::kMaxGraphDepth, ErrorKind::invalid_model,
          "subgraphs nest deeper than {} levels", onnx::kMaxGraphDepth);
    ++depth_;
    const lathe_onnx_graph given = ask<lathe_onnx_graph>(source_.graph_info, "graph_info", handle);
    Graph out;
    out.name = keep(given.name);
    const auto values = [&](auto callback, const char* what, size_t count) {
      std::vector<ValueInfo> infos;
      for (size_t i = 0; i < count; ++i) {
        infos.push_back(value(ask<lathe_onnx_value>(callback, what, handle, i)));
      }
      return infos;
    };
    out.inputs = values(source_.input, "input", given.input_count);
    out.outputs = values(source_.output, "output", given.output_count);
    out.value_infos = values(source_.value, "value", given.value_count);
    for (size_t i = 0; i < given.initialiser_count; ++i) {
      const auto initialiser =
          ask<lathe_onnx_tensor>(source_.initialiser, "initialiser", handle, i);
      demand(initialiser.name, "initialiser->name");
      out.initializers.push_back(tensor(initialiser, {}));
    }
    out.nodes = nodes(handle, given.node_count);
    --depth_;
    return out;
  }

  onnx::Function function(size_t index) {
    const auto given = ask<lathe_onnx_function>(source_.function, "function", index);
    onnx::Function out;
    out.domain = onnx::canonical_domain(keep(given.domain));
    out.name = keep(&demand(given.name, "function->name"));
    out.overload = keep(given.overload);
    out.inputs = names(given.inputs, given.input_count, "function->inputs");
    out.outputs = names(given.outputs, given.output_count, "function->outputs");
    out.attributes = names(given.attributes, given.attribute_count, "function->attributes");
    out.imports = opsets(given.opsets, given.opset_count);
    for (size_t i = 0; i < given.default_count; ++i) {
      out.defaults.push_back(attribute(
          ask<lathe_onnx_attribute>(source_.function_default, "function_default", index, i)));
    }
    const auto body = ask<lathe_onnx_graph>(source_.graph_info, "graph_info", given.body);
    out.nodes = nodes(given.body, body.node_count);
    return out;
  }

  const lathe_onnx_source& source_;
  std::shared_ptr<std::deque<std::string>> strings_;
  std::shared_ptr<onnx::ExternalFolder> folder_;
  std::shared_ptr<const void> bytes_owner_;  // null: bytes are copied
  int depth_ = 0;
};

onnx::Model read_source(const lathe_onnx_source* source, const lathe_load_options& options) {
  demand(source, "source");
  const lathe_onnx_source given = known(source);
  return SourceReader(given, options).read(options.name);
}

lathe_error* load_graph(const lathe_onnx_source* source, const lathe_load_options* given,
                        lathe_program** out) {
  return guarded([&] {
    demand(out, "program");
    const lathe_load_options options = known(given);
    const InterruptScope interrupt(options.poll, options.poll_context);
    const onnx::Model model = read_source(source, options);
    auto handle = std::make_unique<lathe_program>();
    handle->program = import_onnx(model, import_options(options));
    refresh(*handle);
    *out = handle.release();
  });
}

lathe_error* supports(const lathe_onnx_source* source, const lathe_load_options* given,
                      lathe_support_sink sink, void* context) {
  return guarded([&] {
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    const lathe_load_options options = known(given);
    const InterruptScope interrupt(options.poll, options.poll_context);
    const onnx::Model model = read_source(source, options);
    const std::vector<std::string> refusals = onnx::refusals(model, import_options(options));
    // The caller's order: a well-formed model is sorted.
    std::vector<const std::string*> by_index(refusals.size());
    for (size_t i = 0; i < refusals.size(); ++i) {
      by_index[static_cast<size_t>(model.graph.nodes[i].index)] = &refusals[i];
    }
    for (size_t i = 0; i < by_index.size(); ++i) {
      sink(context, i, by_index[i]->empty() ? nullptr : by_index[i]->c_str());
    }
  });
}

}  // namespace

void add_onnx_graphs(lathe_api& api) {
  api.program_load_graph = load_graph;
  api.program_supports = supports;
}

}  // namespace lathe::capi
