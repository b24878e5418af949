// SPDX-License-Identifier: MIT
#include "import/compiled/model_facts.h"

#include <array>

#include "base/error.h"

namespace lathe {
namespace {

struct Text {
  const char* key;
  std::string ModelInfo::* member;
};
constexpr std::array kTexts = {
    Text{"producer", &ModelInfo::producer},
    Text{"producer_version", &ModelInfo::producer_version},
    Text{"domain", &ModelInfo::domain},
    Text{"description", &ModelInfo::description},
    Text{"graph_name", &ModelInfo::graph_name},
    Text{"graph_description", &ModelInfo::graph_description},
};

}  // namespace

nlohmann::ordered_json model_facts_json(const ModelInfo& model,
                                        const std::function<std::string(const Tensor&)>& hash_of) {
  nlohmann::ordered_json out;
  for (const Text& text : kTexts) out[text.key] = model.*text.member;
  out["version"] = model.version;
  auto& properties = out["properties"] = nlohmann::ordered_json::array();
  for (const auto& [key, value] : model.properties) properties.push_back({key, value});
  auto& denotations = out["denotations"] = nlohmann::ordered_json::array();
  for (const auto& [name, found] : model.denotations) {
    denotations.push_back({{"name", name}, {"type", found.type}, {"dims", found.dims}});
  }
  auto& defaults = out["defaults"] = nlohmann::ordered_json::array();
  for (const ModelInfo::Default& each : model.defaults) {
    defaults.push_back({{"name", each.name}, {"type", to_string(each.type)}, {"dims", each.dims}});
    if (each.tensor.data() != nullptr) defaults.back()["hash"] = hash_of(each.tensor);
  }
  return out;
}

ModelInfo model_facts(const nlohmann::json& facts,
                      const std::function<Tensor(const nlohmann::json&)>& tensor_of) {
  ModelInfo out;
  for (const Text& text : kTexts) out.*text.member = facts.at(text.key).get<std::string>();
  out.version = facts.at("version").get<int64_t>();
  for (const nlohmann::json& pair : facts.at("properties")) {
    out.properties.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  }
  for (const nlohmann::json& item : facts.at("denotations")) {
    out.denotations.emplace(item.at("name").get<std::string>(),
                            Denotations{item.at("type").get<std::string>(),
                                        item.at("dims").get<std::vector<std::string>>()});
  }
  for (const nlohmann::json& item : facts.at("defaults")) {
    ModelInfo::Default& each = out.defaults.emplace_back();
    each.name = item.at("name").get<std::string>();
    const auto type = element_type_from_name(item.at("type").get_ref<const std::string&>());
    check(type.has_value(), ErrorKind::invalid_model, "unknown element type '{}' of input '{}'",
          escape(item.at("type").get_ref<const std::string&>()), escape(each.name));
    each.type = *type;
    each.dims = item.at("dims").get<Dims>();
    if (item.contains("hash")) each.tensor = tensor_of(item.at("hash"));
  }
  return out;
}

}  // namespace lathe
