// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "llm/model/checkpoint_config.h"
#include "llm/template/chat_template.h"

namespace lathe::cli {
namespace {

constexpr size_t kMaxRequestBytes = size_t{64} << 20;

std::string read_input() {
  std::string text;
  for (size_t count = 1; count > 0;) {
    const size_t before = text.size();
    text.resize(before + (size_t{1} << 16));
    count = std::fread(text.data() + before, 1, text.size() - before, stdin);
    text.resize(before + count);
    check(std::ferror(stdin) == 0, ErrorKind::io, "standard input cannot be read after {} bytes",
          text.size());
    check(text.size() <= kMaxRequestBytes, ErrorKind::invalid_argument,
          "standard input exceeds {} bytes", kMaxRequestBytes);
  }
  return text;
}

}  // namespace

int render_chat(CommandLine& line) {
  std::string path;
  bool adds_prompt = false;
  std::string name;
  line.model("FOLDER_OR_FILE", path, "Model folder, GGUF file or template file.");
  line.flag("--add-generation-prompt", adds_prompt,
            "Ends the prompt with the start of the assistant's message.");
  line.text("--template", name, "NAME", "Name of the template, if there are several.");
  line.options({"timeout"});
  if (!line.parse()) return 0;

  templates::Limits limits;
  if (const double seconds = line.options().number("timeout"); seconds > 0) {
    limits.time =
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
  }
  const templates::ChatTemplates chat = llm::load_chat_templates(path);
  templates::ChatRequest request = templates::read_chat_request(read_input(), limits);
  request.add_generation_prompt = request.add_generation_prompt || adds_prompt;
  if (!name.empty()) request.template_name = name;
  line.out().write(chat.render(request).text);
  return 0;
}

}  // namespace lathe::cli
