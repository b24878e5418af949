// SPDX-License-Identifier: MIT
#include "runtime/data_set.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_map.h"
#include "import/onnx/tensor_proto.h"

namespace lathe {
namespace {

onnx::ValueType::Kind stored_kind(const Type& type) {
  switch (type.kind) {
    case Type::Kind::sequence:
      return onnx::ValueType::Kind::sequence;
    case Type::Kind::optional:
      return onnx::ValueType::Kind::optional;
    case Type::Kind::map:
      return onnx::ValueType::Kind::map;
    case Type::Kind::tensor:
      break;
  }
  return onnx::ValueType::Kind::tensor;
}

std::string numbered(const std::string& folder, std::string_view prefix, size_t index,
                     std::string_view suffix) {
  return join_path(folder, fmt::format("{}{}{}", prefix, index, suffix));
}

struct Place {
  std::string name;
  Type type;
};

std::vector<std::optional<Box>> read_values(const std::string& folder, std::string_view prefix,
                                            const std::vector<Place>& places) {
  std::vector<std::optional<Box>> out(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string path = numbered(folder, prefix, i, ".pb");
    if (!file_exists(path)) continue;
    onnx::StoredValue stored = onnx::read_stored_value(path, stored_kind(places[i].type));
    const auto named = std::find_if(places.begin(), places.end(),
                                    [&](const Place& place) { return place.name == stored.name; });
    const size_t at = named == places.end() ? i : static_cast<size_t>(named - places.begin());
    out[at] = std::move(stored.value);
  }
  return out;
}

}  // namespace

std::vector<std::string> data_sets_beside(const std::string& model_path) {
  std::vector<std::string> folders;
  const std::string parent = parent_folder(model_path);
  for (size_t i = 0;; ++i) {
    std::string folder = numbered(parent, "test_data_set_", i, "");
    if (!is_folder(folder)) return folders;
    folders.push_back(std::move(folder));
  }
}

DataSet read_data_set(const std::string& folder, const Program& program) {
  const Module& main = program.main();
  DataSet out;
  out.name = folder.substr(folder.rfind('/') + 1);
  std::vector<Place> places;
  for (const auto& parameter : main.parameters()) {
    places.push_back({parameter->name(), parameter->type()});
  }
  std::vector<std::optional<Box>> inputs = read_values(folder, "input_", places);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].has_value(), ErrorKind::invalid_argument, "'{}' has no file for input '{}'",
          escape(folder), escape(places[i].name));
    out.inputs.push_back(std::move(*inputs[i]));
  }
  places.clear();
  for (size_t i = 0; i < main.results().size(); ++i) {
    places.push_back({main.result_names()[i], main.results()[i]->type()});
  }
  out.outputs = read_values(folder, "output_", places);
  return out;
}

}  // namespace lathe
