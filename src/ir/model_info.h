// SPDX-License-Identifier: MIT
// What a model's file states beside its graph. Programs that were read from text have none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace lathe {

class CompiledSource;

// The meaning of a value and of its axes: "IMAGE", "DATA_BATCH"; empty: none.
struct Denotations {
  std::string type;
  std::vector<std::string> dims;
};

struct ModelInfo {
  std::string producer;
  std::string producer_version;
  std::string domain;
  std::string description;
  std::string graph_name;
  std::string graph_description;
  int64_t version = 0;
  std::vector<std::pair<std::string, std::string>> properties;  // the author's, in file order
  std::map<std::string, Denotations, std::less<>> denotations;  // by name of an input or output
  // Defaults of inputs: of those that are parameters the tensor, of the others type and shape.
  struct Default {
    std::string name;
    ElementType type = ElementType::f32;
    Dims dims;
    Tensor tensor;  // without data: the input is a literal
  };
  std::vector<Default> defaults;
  std::shared_ptr<const CompiledSource> compiled;  // null: not from a compiled file
};

}  // namespace lathe
