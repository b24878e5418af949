// SPDX-License-Identifier: MIT
// The program that runs once before a decoder: features or text in, what the decoder looks back at
// out.
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
  // `wanted`: names of its results, or of inputs that are handed on as they are. `file` is for
  // messages.
  Encoder(std::unique_ptr<Program> program, const std::string& file,
          std::vector<std::string> wanted, const RunnerOptions& options);

  const std::vector<std::string>& inputs() const { return inputs_; }
  // Of one of these.
  const Type& input_type(std::string_view name) const;
  // The wanted tensors, in order. InvalidArgument for an input that is missing, unknown, or of
  // another type. A program that was made for a batch of several runs the one given in each place.
  std::vector<Tensor> run(const NamedTensors& given, const CancelToken* cancel) const;

 private:
  std::vector<std::string> inputs_;
  std::vector<std::string> wanted_;
  int64_t batch_ = 1;  // that all inputs are made for, if it is known
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<SharedSession> session_;
};

}  // namespace lathe::llm
