// SPDX-License-Identifier: MIT
#include "cli/encoder.h"

#include "base/error.h"
#include "base/file_map.h"
#include "cli/execution.h"
#include "cli/inspect_checkpoint.h"
#include "import/checkpoint/checkpoint.h"

namespace lathe::cli {

bool is_encoder(const std::string& path) {
  if (!is_checkpoint(path)) {
    // Sentence Transformers may keep the weights in a folder of their own.
    return is_folder(path) && file_exists(join_path(path, "modules.json")) &&
           !file_exists(join_path(path, "genai_config.json"));
  }
  try {
    const checkpoint::Checkpoint model = checkpoint::is_gguf_file(path)
                                             ? checkpoint::open_gguf(path)
                                             : checkpoint::open_hf_folder(Folder(path));
    return model.architecture->encoder;
  } catch (const Error&) {
    return false;
  }
}

std::string weights_of_encoder(const std::string& path) {
  if (is_checkpoint(path)) return path;
  return join_path(path, llm::read_sentence_config(Folder(path)).transformer);
}

llm::SentenceEncoderOptions encoder_options(const Options& options, ThreadPool& pool) {
  const CompileOptions compiling = compile_options(options);
  llm::SentenceEncoderOptions out;
  out.runner.target = compiling.target;
  out.runner.compute = compiling.compute;
  out.runner.passes = compiling.passes;
  out.runner.pool = &pool;
  out.quantize = quantize_option(options);
  return out;
}

}  // namespace lathe::cli
