// SPDX-License-Identifier: MIT
#include "cli/data_set.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_map.h"
#include "cli/npz.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::cli {
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

// Puts stored values where their names say, or in order where a name says nothing.
template <class Slot>
void read_values(const std::string& folder, std::string_view prefix,
                 const std::vector<std::string>& names, const std::vector<Type>& types,
                 std::vector<Slot>& out) {
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string path = numbered(folder, prefix, i, ".pb");
    if (!file_exists(path)) continue;
    onnx::StoredValue stored = onnx::read_stored_value(path, stored_kind(types[i]));
    const auto found = std::find(names.begin(), names.end(), stored.name);
    const size_t place = found == names.end() ? i : static_cast<size_t>(found - names.begin());
    out[place] = std::move(stored.value);
  }
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
  std::vector<std::string> names;
  std::vector<Type> types;
  for (const auto& parameter : main.parameters()) {
    names.push_back(parameter->name());
    types.push_back(parameter->type());
  }
  std::vector<std::optional<Box>> inputs(names.size());
  read_values(folder, "input_", names, types, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].has_value(), ErrorKind::invalid_argument, "'{}' holds nothing for input '{}'",
          escape(folder), escape(names[i]));
    out.inputs.push_back(std::move(*inputs[i]));
  }
  types.clear();
  for (const Value* result : main.results()) types.push_back(result->type());
  out.outputs.resize(main.results().size());
  read_values(folder, "output_", main.result_names(), types, out.outputs);
  return out;
}

std::vector<std::optional<Box>> read_expected(const std::string& path, const Program& program) {
  const std::vector<std::string>& names = program.main().result_names();
  const auto file = FileMap::open(path);
  check(looks_like_npz(file->text()), ErrorKind::invalid_argument,
        "--expected {}: that is no .npz file", escape(path));
  const NpzReader reader(file);
  std::vector<std::optional<Box>> out(names.size());
  for (const std::string& member : reader.names()) {
    const auto found = std::find(names.begin(), names.end(), member);
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    check(found != names.end(), ErrorKind::invalid_argument,
          "--expected {}: the model has no output '{}'{}", escape(path), escape(member),
          did_you_mean(member, candidates));
    const auto index = static_cast<size_t>(found - names.begin());
    out[index] = Box{reader.read(member, program.main().results()[index]->type().element)};
  }
  return out;
}

}  // namespace lathe::cli
