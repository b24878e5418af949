// SPDX-License-Identifier: MIT
// What a model's file states beside its graph, as JSON in a compiled file.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "ir/model_info.h"

namespace lathe {

// `hash_of` returns the text by which `tensor_of` finds the default of an input again.
nlohmann::ordered_json model_facts_json(const ModelInfo& model,
                                        const std::function<std::string(const Tensor&)>& hash_of);
ModelInfo model_facts(const nlohmann::json& facts,
                      const std::function<Tensor(const nlohmann::json&)>& tensor_of);

}  // namespace lathe
