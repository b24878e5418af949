// SPDX-License-Identifier: MIT
// Runs the "embedding" program of a multimodal folder: token ids in, embeddings out.
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
  // `names` and `decoder`: the decoder's inputs to compute. InvalidModel if the program has no such
  // output, Unsupported if it requires more than tokens and features.
  Embedder(std::unique_ptr<Program> program, const ProgramConfig& config,
           const DecoderConfig& decoder, const DecoderInterface& names,
           const RunnerOptions& options);

  // Returns [1, tokens, …] by the decoder's input names. `ends`: end of each sequence's tokens.
  NamedTensors run(std::span<const int64_t> tokens, std::span<const int64_t> ends,
                   const RunOptions& options) const;
  // Why tokens of several sequences cannot share a run; empty: they can.
  const std::string& not_packed_reason() const { return not_packed_reason_; }

 private:
  struct Output {
    std::string input;  // decoder input
    size_t result = 0;
    bool constant = false;  // as in test models without computation: repeated for every token
  };
  std::vector<Tensor> run_tokens(std::span<const int64_t> tokens, const RunOptions& options) const;

  std::string ids_;
  std::vector<Output> outputs_;
  std::string not_packed_reason_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Session> session_;
};

}  // namespace lathe::llm
