// SPDX-License-Identifier: MIT
// Stored inputs and expected outputs in the format of ONNX test data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "tensor/box.h"

namespace lathe {

struct DataSet {
  std::string name;
  std::vector<Box> inputs;                  // one per parameter of main
  std::vector<std::optional<Box>> outputs;  // one per result; absent: not stored
};

// The folders test_data_set_0, test_data_set_1, … beside a model.
std::vector<std::string> data_sets_beside(const std::string& model_path);

// Reads files input_N.pb and output_N.pb and assigns them by tensor name, else in order.
DataSet read_data_set(const std::string& folder, const Program& program);

}  // namespace lathe
