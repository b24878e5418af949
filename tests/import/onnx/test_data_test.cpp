// SPDX-License-Identifier: MIT
// Every model under $LATHE_TEST_DATA is read or refused with a message that names the error.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "import/onnx/reader.h"
#include "import/onnx/tensor_proto.h"
#include "tests/support/errors.h"

namespace lathe::onnx {
namespace {

namespace fs = std::filesystem;

TEST(TestData, EveryModelIsReadOrRefused) {
  const char* root = std::getenv("LATHE_TEST_DATA");
  if (root == nullptr) GTEST_SKIP() << "LATHE_TEST_DATA names no folder of models";
  int read = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".onnx") continue;
    const std::string error = error_of([&] {
      const Model model = read_model(entry.path());
      for (const TensorData& data : model.graph.initializers) {
        if (!data.external) EXPECT_EQ(to_tensor(data).dims(), data.dims);
      }
    });
    const bool is_refused =
        error.starts_with("InvalidModel: ") || error.starts_with("Unsupported: ");
    EXPECT_TRUE(error == "no error" || is_refused) << entry.path() << ": " << error;
    read += error == "no error" ? 1 : 0;
  }
  EXPECT_GT(read, 0) << root;
}

}  // namespace
}  // namespace lathe::onnx
