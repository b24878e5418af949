// SPDX-License-Identifier: MIT
// An encoder of texts: a Hugging Face folder, of Sentence Transformers or not, or a GGUF file.
#pragma once

#include <string>

#include "base/options.h"
#include "base/thread_pool.h"
#include "llm/model/sentence_encoder.h"

namespace lathe::cli {

// True for an encoder of texts; false for a checkpoint that cannot be opened.
bool is_encoder(const std::string& path);
// The GGUF file, or the folder of the encoder's own weights.
std::string weights_of_encoder(const std::string& path);
llm::SentenceEncoderOptions encoder_options(const Options& options, ThreadPool& pool);

}  // namespace lathe::cli
