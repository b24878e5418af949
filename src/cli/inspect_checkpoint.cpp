// SPDX-License-Identifier: MIT
#include "cli/inspect_checkpoint.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file_map.h"
#include "import/checkpoint/checkpoint.h"
#include "import/checkpoint/held_as.h"
#include "llm/model/compiled_model.h"
#include "llm/model/model_folder.h"
#include "llm/model/model_size.h"

namespace lathe::cli {
namespace {

using checkpoint::Checkpoint;
using checkpoint::StoredTensor;
using Json = nlohmann::ordered_json;

// Tensors that are stored and held alike.
struct WeightGroup {
  std::string type, held;
  int64_t tensors = 0;
  int64_t bytes = 0;
};

// By type and form, the most bytes first.
class WeightGroups {
 public:
  void add(const std::string& type, const std::string& held, int64_t bytes) {
    WeightGroup& group = by_type_[{type, held}];
    group.type = type;
    group.held = held;
    ++group.tensors;
    group.bytes += bytes;
  }
  std::vector<WeightGroup> sorted() const {
    std::vector<WeightGroup> groups;
    for (const auto& [key, group] : by_type_) groups.push_back(group);
    std::ranges::sort(groups, std::greater(), &WeightGroup::bytes);
    return groups;
  }
  std::string table() const {
    std::string out =
        fmt::format("{:<8} {:>7} {:>10}  {}\n", "type", "tensors", "bytes", "held as");
    for (const WeightGroup& group : sorted()) {
      out += fmt::format("{:<8} {:>7} {:>10}  {}\n", escape(group.type), group.tensors,
                         llm::bytes_text(group.bytes), group.held);
    }
    return out;
  }
  Json json() const {
    Json out = Json::array();
    for (const WeightGroup& group : sorted()) {
      out.push_back({{"type", group.type},
                     {"tensors", group.tensors},
                     {"bytes", group.bytes},
                     {"held_as", group.held}});
    }
    return out;
  }

 private:
  std::map<std::pair<std::string, std::string>, WeightGroup> by_type_;
};

WeightGroups groups_of(const Checkpoint& model) {
  WeightGroups groups;
  for (const auto& [name, tensor] : model.weights.all()) {
    groups.add(tensor.type, held_as(tensor), static_cast<int64_t>(tensor.bytes.size()));
  }
  return groups;
}

WeightGroups groups_of(const CompiledFile& file) {
  WeightGroups groups;
  for (const CompiledFile::Held& one : file.held()) {
    groups.add(std::string(to_string(one.type)),
               one.packed ? fmt::format("packed for {}", file.target()) : "plain", one.bytes);
  }
  return groups;
}

std::string shape_of(const StoredTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.dims, ", "));
}

std::string text_of(const Checkpoint& model) {
  std::string out = fmt::format("'{}': {} ({}), {} tensors, {}\n\n", escape(model.place),
                                model.architecture->type, model.architecture->class_name,
                                model.weights.all().size(), llm::bytes_text(model.weights.bytes()));
  out += groups_of(model).table();
  size_t width = 6;
  for (const auto& [name, tensor] : model.weights.all()) {
    width = std::max(width, escape(name).size());
  }
  out += fmt::format("\n{:<{}} {:<8} {:>10}  {}\n", "tensor", width, "type", "bytes", "shape");
  for (const auto& [name, tensor] : model.weights.all()) {
    out +=
        fmt::format("{:<{}} {:<8} {:>10}  {}\n", escape(name), width, escape(tensor.type),
                    llm::bytes_text(static_cast<int64_t>(tensor.bytes.size())), shape_of(tensor));
  }
  return out;
}

std::string json_of(const Checkpoint& model) {
  Json out = {{"model", model.place},
              {"architecture", std::string(model.architecture->type)},
              {"bytes", model.weights.bytes()},
              {"types", groups_of(model).json()},
              {"tensors", Json::array()}};
  for (const auto& [name, tensor] : model.weights.all()) {
    out["tensors"].push_back({{"name", name},
                              {"type", tensor.type},
                              {"shape", tensor.dims},
                              {"bytes", tensor.bytes.size()},
                              {"held_as", held_as(tensor)}});
  }
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Checkpoint open_checkpoint(const std::string& path) {
  return checkpoint::is_gguf_file(path) ? checkpoint::open_gguf(path)
                                        : checkpoint::open_hf_folder(Folder(path));
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  return checkpoint::is_gguf_file(path) ||
         (is_folder(path) && checkpoint::is_hf_folder(Folder(path)));
}

std::string describe_checkpoint(const std::string& path, bool json) {
  const Checkpoint model = open_checkpoint(path);
  return json ? json_of(model) : text_of(model);
}

std::string describe_types(const std::string& path) {
  std::vector<std::string> parts;
  for (const WeightGroup& group : groups_of(open_checkpoint(path)).sorted()) {
    parts.push_back(fmt::format("{} of {} ({})", group.tensors, escape(group.type), group.held));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool is_compiled_model(const std::string& path) {
  return llm::open_compiled_model(path) != nullptr;
}

std::string describe_compiled(const std::string& path, bool json) {
  const auto file = llm::open_compiled_model(path);
  const std::string type = llm::ModelFolder(path).config().type;
  const std::string& compute = file->compute();
  const WeightGroups groups = groups_of(*file);
  const int64_t packed = file->packed_bytes();
  if (json) {
    const Json out = {{"model", path},
                      {"type", type},
                      {"target", file->target()},
                      {"compute", compute},
                      {"programs", file->programs().size()},
                      {"packed_bytes", packed},
                      {"types", groups.json()}};
    return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return fmt::format("'{}': {}, {} programs compiled for {} ({}), {} of packed weights\n\n{}",
                     escape(path), escape(type), file->programs().size(), file->target(), compute,
                     llm::bytes_text(packed), groups.table());
}

}  // namespace lathe::cli
