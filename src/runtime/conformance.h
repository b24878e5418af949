// SPDX-License-Identifier: MIT
// Models with stored inputs and outputs, one folder per case, as in the ONNX backend tests.
#pragma once

#include <string>
#include <vector>

#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {

struct ConformanceOptions {
  CompileOptions compile;
  SessionOptions session;
  RunOptions run;
  // |a - b| <= absolute + relative * |b| per element; more for 16-bit floats. A file tolerance.json
  // beside the model ({"rtol": …, "atol": …}) overrides both.
  double relative = 1e-3;
  double absolute = 1e-5;
};

enum class ConformanceStatus : uint8_t { passed, failed, unsupported };
std::string_view to_string(ConformanceStatus status);

struct ConformanceResult {
  std::string folder;
  ConformanceStatus status = ConformanceStatus::passed;
  std::string detail;  // why it did not pass
  int error_code = 0;  // exit code of the error that prevented a comparison; 0: none
};

// The folders from `root` down that contain a model and a test_data_set_0, sorted.
std::vector<std::string> find_model_folders(const std::string& root);

// Runs the folder's model on all its data sets. Throws only if interrupted.
ConformanceResult run_model_folder(const std::string& folder,
                                   const ConformanceOptions& options = {});

// The first difference, or "": floats must be within the tolerance, other elements equal.
std::string compare_elements(const Box& actual, const Box& expected, double relative,
                             double absolute);

}  // namespace lathe
