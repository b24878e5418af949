// SPDX-License-Identifier: MIT
// Runs the encoder program once before a decoder: features or text in, cross-attention inputs out.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/model/model_folder.h"
#include "llm/model/step_request.h"
#include "runtime/session.h"

namespace lathe::llm {

struct RunnerOptions;

class Encoder {
 public:
  // `requested`: names of results, or of inputs to pass through. `file` is for messages.
  Encoder(std::unique_ptr<Program> program, const std::string& file,
          std::vector<std::string> requested, const RunnerOptions& options);

  const std::vector<std::string>& inputs() const { return inputs_; }
  // Type of one of inputs().
  const Type& input_type(std::string_view name) const;
  // The requested tensors, in order. InvalidArgument for an input that is missing, unknown or of
  // another type. A fixed batch above 1 repeats the one item.
  std::vector<Tensor> run(const NamedTensors& given, const CancelToken* cancel) const;

 private:
  std::vector<std::string> inputs_;
  std::vector<std::string> requested_;
  int64_t batch_ = 1;  // of all inputs, if fixed and equal
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Session> session_;
};

}  // namespace lathe::llm
