// SPDX-License-Identifier: MIT
#include "import/onnx/reader.h"

#include "base/error.h"
#include "base/error_reason.h"
#include "base/file_map.h"
#include "import/onnx/external_data.h"
#include "import/onnx/graph_reader.h"
#include "import/onnx/sniff.h"
#include "import/onnx/text_reader.h"
#include "import/onnx/well_formed.h"

namespace lathe::onnx {
namespace {

// A ModelProto's embedded messages. They are read after the opset imports, which may follow them
// and which errors in nodes name.
struct Parts {
  std::string_view graph;
  std::vector<std::string_view> functions;
  bool has_graph = false;
};

constexpr size_t kMaxMetadata = 100'000;  // an entry takes more memory than file

OpsetImport read_import(ProtoPlace& place, std::string_view bytes) {
  OpsetImport out;
  ProtoMessage message(place, "OperatorSetIdProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        out.domain = canonical_domain(message.name());
        break;
      case 2:
        out.version = message.integer();
        break;
      default:
        message.skip();
    }
  }
  return out;
}

std::pair<std::string_view, std::string_view> read_metadata(ProtoPlace& place,
                                                            std::string_view bytes) {
  std::pair<std::string_view, std::string_view> out;
  ProtoMessage message(place, "StringStringEntryProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        out.first = message.name();
        break;
      case 2:
        out.second = message.name();
        break;
      default:
        message.skip();
    }
  }
  return out;
}

Parts scan_model(ProtoPlace& place, std::string_view bytes, Model& model) {
  Parts parts;
  ProtoMessage message(place, "ModelProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        model.ir_version = message.integer();
        break;
      case 2:
        model.producer = message.name();
        break;
      case 3:
        model.producer_version = message.name();
        break;
      case 4:
        model.domain = message.name();
        break;
      case 5:
        model.model_version = message.integer();
        break;
      case 6:
        model.description = message.name();
        break;
      case 7:
        parts.graph = message.text();
        parts.has_graph = true;
        break;
      case 8:
        model.imports.push_back(read_import(place, message.text()));
        break;
      case 14:
        check(model.metadata.size() < kMaxMetadata, ErrorKind::invalid_model,
              "metadata_props has more than {} entries", kMaxMetadata);
        model.metadata.push_back(read_metadata(place, message.text()));
        break;
      case 25:
        parts.functions.push_back(message.text());
        break;
      default:
        message.skip();
    }
  }
  return parts;
}

// Nodes are read last: a function's opset imports may follow them.
Function read_function(ProtoPlace& place, GraphReader& reader, std::string_view bytes,
                       const OpsetImports& model_imports) {
  Function out;
  std::vector<std::string_view> nodes;
  std::vector<std::string_view> defaults;
  ProtoMessage message(place, "FunctionProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        out.name = message.name();
        break;
      case 4:
        out.inputs.push_back(message.name());
        break;
      case 5:
        out.outputs.push_back(message.name());
        break;
      case 6:
        out.attributes.push_back(message.name());
        break;
      case 7:
        nodes.push_back(message.text());
        break;
      case 9:
        out.imports.push_back(read_import(place, message.text()));
        break;
      case 10:
        out.domain = canonical_domain(message.name());
        break;
      case 11:
        defaults.push_back(message.text());
        break;
      case 13:
        out.overload = message.name();
        break;
      default:
        message.skip();
    }
  }
  try {
    for (const std::string_view item : defaults) {
      out.defaults.push_back(reader.attribute(item, model_imports));
    }
    for (const std::string_view item : nodes) {
      out.nodes.push_back(reader.node(item, static_cast<int64_t>(out.nodes.size()), out.imports));
    }
  } catch (Error& error) {
    error.note(function_note(out));
    throw;
  }
  return out;
}

// The outermost message decides whether the bytes are a model.
Parts scan_or_explain(ProtoPlace& place, std::string_view bytes, Model& model) {
  std::string why = "it has no graph";
  try {
    Parts parts;
    with_proto_errors(model.origin, "ONNX model", place,
                      [&] { parts = scan_model(place, bytes, model); });
    if (parts.has_graph) return parts;
  } catch (const Error& error) {
    if (sniff(bytes).empty()) throw;
    why = error.message();
  }
  const std::string_view kind = sniff(bytes);
  fail({ErrorKind::invalid_model, reason::kNotProtobuf}, "'{}' ({} bytes) is not an ONNX model: {}",
       escape(model.origin), bytes.size(),
       kind.empty() ? why : fmt::format("it looks like {}", kind));
}

Model parse(std::string_view bytes, std::string_view origin, const TensorSource& source,
            const std::shared_ptr<const FileMap>& file) {
  if (is_onnx_text(bytes)) return parse_text_model(bytes, origin, source);
  const auto strings = std::make_shared<StringArena>();
  Model model;
  model.origin = origin;
  model.owners = {source.owner, strings};
  model.file = file;
  ProtoPlace place(bytes);
  place.strings = strings.get();
  place.file = file.get();
  const Parts parts = scan_or_explain(place, bytes, model);
  check(model.ir_version > 0, {ErrorKind::invalid_model, reason::kBadGraph},
        "'{}' has ir_version {}, expected 1 to {}", escape(origin), model.ir_version, kIrVersion);
  with_proto_errors(origin, "ONNX model", place, [&] {
    GraphReader reader(place, source, model.origin);
    model.graph = reader.graph(parts.graph, model.imports);
    for (const std::string_view item : parts.functions) {
      model.functions.push_back(read_function(place, reader, item, model.imports));
    }
  });
  make_well_formed(model);
  return model;
}

}  // namespace

Model parse_model(std::string_view bytes, std::string_view origin,
                  std::shared_ptr<const void> owner, const std::string& folder,
                  const MemoryFiles& data) {
  TensorSource source{std::move(owner), nullptr};
  if (!folder.empty() || !data.empty()) {
    source.folder = std::make_shared<ExternalFolder>(folder, data);
  }
  return parse(bytes, origin, source, nullptr);
}

Model read_model(const std::string& path, const MemoryFiles& data) {
  const std::shared_ptr<const FileMap> file = FileMap::open(path);
  const TensorSource source{file, std::make_shared<ExternalFolder>(parent_folder(path), data)};
  return parse(file->text(), path, source, file);
}

}  // namespace lathe::onnx
