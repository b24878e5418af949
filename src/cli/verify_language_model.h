// SPDX-License-Identifier: MIT
// Verifies a language model or an encoder of texts: a Hugging Face or GenAI folder, a GGUF file.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "cli/verify_report.h"

namespace lathe::cli {

// Runs a prompt of 16 tokens and 4 steps, and compares every kernel with the reference on the same
// inputs. `tolerance` as VerificationOptions has it.
Report verify_language_model(const std::string& path, double tolerance, const Options& options);
// Runs packed texts of different lengths, then a text alone, and compares in the same way.
Report verify_encoder(const std::string& path, double tolerance, const Options& options);

}  // namespace lathe::cli
