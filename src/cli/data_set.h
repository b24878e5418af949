// SPDX-License-Identifier: MIT
// Stored inputs and the outputs that belong to them.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "tensor/box.h"

namespace lathe::cli {

struct DataSet {
  std::string name;
  std::vector<Box> inputs;                  // one per parameter of main
  std::vector<std::optional<Box>> outputs;  // one per result; absent: not stored
};

// The folders test_data_set_0, test_data_set_1, … beside a model, each with input_N.pb and
// output_N.pb.
std::vector<std::string> data_sets_beside(const std::string& model_path);
DataSet read_data_set(const std::string& folder, const Program& program);

// The arrays of an .npz file as expected outputs, by name.
std::vector<std::optional<Box>> read_expected(const std::string& path, const Program& program);

}  // namespace lathe::cli
