// SPDX-License-Identifier: MIT
// The program that makes embeddings of tokens, for decoders that take those: of models that see or
// hear, whose folder has an "embedding".
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llm/config/genai_config.h"
#include "llm/model/step_request.h"
#include "passes/decoder/pack_sequences.h"
#include "runtime/session.h"

namespace lathe::llm {

struct RunnerOptions;

class Embedder {
 public:
  // For the inputs of `decoder` that it makes, in the folder's words. InvalidModel if its program
  // does not give them, Unsupported if it wants more than tokens and features.
  Embedder(std::unique_ptr<Program> program, const ProgramConfig& config,
           const DecoderConfig& decoder, const DecoderInterface& names,
           const RunnerOptions& options);

  // [1, rows, …] by the names of the decoder's inputs. `ends`: behind the rows of each sequence.
  NamedTensors run(std::span<const int64_t> tokens, std::span<const int64_t> ends,
                   const RunOptions& options) const;
  // What keeps rows of several sequences from one run. Empty: nothing.
  const std::string& not_packed_reason() const { return not_packed_reason_; }

 private:
  struct Output {
    std::string input;  // of the decoder
    size_t result = 0;
    bool constant = false;  // as models that are nothing but a signature have: for every row
  };
  std::vector<Tensor> run_rows(std::span<const int64_t> tokens, const RunOptions& options) const;

  std::string ids_;
  std::vector<Output> outputs_;
  std::string not_packed_reason_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<SharedSession> session_;
};

}  // namespace lathe::llm
