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

std::vector<WeightGroup> groups_of(const Checkpoint& model) {
  std::map<std::pair<std::string, std::string>, WeightGroup> by_type;
  for (const auto& [name, tensor] : model.weights.all()) {
    const std::string held = held_as(tensor);
    WeightGroup& group = by_type[{tensor.type, held}];
    group.type = tensor.type;
    group.held = held;
    ++group.tensors;
    group.bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  std::vector<WeightGroup> groups;
  for (const auto& [key, group] : by_type) groups.push_back(group);
  std::ranges::sort(groups, std::greater(), &WeightGroup::bytes);
  return groups;
}

std::string shape_of(const StoredTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.dims, ", "));
}

std::string text_of(const Checkpoint& model) {
  std::string out = fmt::format("'{}': {} ({}), {} tensors, {}\n\n", escape(model.place),
                                model.architecture->type, model.architecture->class_name,
                                model.weights.all().size(), llm::bytes_text(model.weights.bytes()));
  out += fmt::format("{:<8} {:>7} {:>10}  {}\n", "type", "tensors", "bytes", "held as");
  for (const WeightGroup& group : groups_of(model)) {
    out += fmt::format("{:<8} {:>7} {:>10}  {}\n", escape(group.type), group.tensors,
                       llm::bytes_text(group.bytes), group.held);
  }
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
              {"types", Json::array()},
              {"tensors", Json::array()}};
  for (const WeightGroup& group : groups_of(model)) {
    out["types"].push_back({{"type", group.type},
                            {"tensors", group.tensors},
                            {"bytes", group.bytes},
                            {"held_as", group.held}});
  }
  for (const auto& [name, tensor] : model.weights.all()) {
    out["tensors"].push_back({{"name", name},
                              {"type", tensor.type},
                              {"shape", tensor.dims},
                              {"bytes", tensor.bytes.size()},
                              {"held_as", held_as(tensor)}});
  }
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  return checkpoint::is_gguf_file(path) ||
         (is_folder(path) && checkpoint::is_hf_folder(Folder(path)));
}

std::string describe_checkpoint(const std::string& path, bool json) {
  const Checkpoint model = checkpoint::is_gguf_file(path)
                               ? checkpoint::open_gguf(path)
                               : checkpoint::open_hf_folder(Folder(path));
  return json ? json_of(model) : text_of(model);
}

}  // namespace lathe::cli
