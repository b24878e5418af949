// SPDX-License-Identifier: MIT
// Compiled files of language models: programs, configuration, tokenizer and chat template.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "import/compiled/compiled_file.h"
#include "llm/model/decoder.h"
#include "targets/save_program.h"

namespace lathe::llm {

// The compiled file at a path if it holds a language model; else null.
std::shared_ptr<const CompiledFile> open_compiled_model(const std::string& path);
// A model's folder; of a compiled file the files in it. `files` take precedence.
Folder open_folder(const std::string& path, const MemoryFiles& files = {});

// Compiles the programs that a decoder runs, from those of its compiled file. InvalidModel if
// another build of Lathe wrote programs that this one would not make.
CompileProgram compile_from(std::shared_ptr<const CompiledFile> file);

// Compiles the model of a folder and writes it. `path` of the model as Decoder opens it.
SavedSizes save_model(const std::string& path, const DecoderOptions& options,
                      const std::function<void(std::string_view)>& write);

}  // namespace lathe::llm
