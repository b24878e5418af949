// SPDX-License-Identifier: MIT
#include <cstring>

#include "base/error.h"
#include "base/file_map.h"
#include "cli/commands.h"
#include "cli/encoder.h"
#include "cli/input_lines.h"
#include "cli/npy.h"
#include "cli/outputs.h"

namespace lathe::cli {
namespace {

struct EmbedArguments {
  std::string model;
  std::string file;
  std::string prompt;
  std::string prompt_name;

  void declare(CommandLine& line) {
    line.model("PATH", model,
               "Hugging Face folder of an encoder, of Sentence Transformers or not, or GGUF file.");
    line.text("--output,-o", file, "FILE.npy",
              "Writes all embeddings, f32 [lines, size], in place of one JSON array per line.");
    line.text("--prompt,-p", prompt, "TEXT", "Text before each line; '' for none.");
    line.text("--prompt-name", prompt_name, "NAME",
              "Prompt of the model before each line: query, document. Default: the model's.");
    line.options({"target", "compute", "quantize", "threads", "pin-threads"});
  }

  void check_together(bool has_prompt) const {
    check(!has_prompt || prompt_name.empty(), ErrorKind::invalid_argument,
          "got --prompt and --prompt-name '{}': use one of them", escape(prompt_name));
    check(file.empty() || file.ends_with(".npy"), ErrorKind::invalid_argument,
          "--output is '{}', expected a name that ends in .npy", escape(file));
    if (!file.empty()) check_output_file("--output", file, {});
  }
};

void print_rows(const Tensor& rows, Output& out) {
  const int64_t size = rows.dims()[1];
  for (int64_t i = 0; i < rows.dims()[0]; ++i) {
    const float* row = rows.as<float>() + i * size;
    out.write(fmt::format("[{}]\n", fmt::join(row, row + size, ", ")));
  }
}

void write_rows(const std::vector<Tensor>& parts, int64_t size, const std::string& path) {
  int64_t count = 0;
  for (const Tensor& part : parts) count += part.dims()[0];
  const Tensor all(ElementType::f32, {count, size});
  float* to = all.as<float>();
  for (const Tensor& part : parts) to = std::copy_n(part.as<float>(), part.count(), to);
  FileWriter file(path);
  write_npy(all, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace

int embed(CommandLine& line) {
  EmbedArguments arguments;
  arguments.declare(line);
  if (!line.parse()) return 0;
  const bool has_prompt = line.has("--prompt");
  arguments.check_together(has_prompt);
  const Options& options = line.options();
  ThreadPool pool(static_cast<int>(options.integer("threads")), options.boolean("pin-threads"));
  const llm::SentenceEncoder encoder(arguments.model, encoder_options(options, pool));
  const std::string prompt = has_prompt ? arguments.prompt : encoder.prompt(arguments.prompt_name);
  constexpr size_t kChunk = size_t{1} << 20;
  InputLines input(kChunk);
  std::vector<Tensor> parts;
  size_t done = 0;
  for (auto lines = input.next(); !lines.empty(); lines = input.next()) {
    try {
      parts.push_back(encoder.encode(lines, prompt, &interrupts()));
    } catch (Error& error) {
      error.note(
          fmt::format("in the {} lines from line {} of standard input", lines.size(), done + 1));
      throw;
    }
    done += lines.size();
    if (!arguments.file.empty()) continue;
    print_rows(parts.back(), line.out());
    parts.clear();
  }
  if (!arguments.file.empty()) write_rows(parts, encoder.size(), arguments.file);
  return 0;
}

}  // namespace lathe::cli
