// SPDX-License-Identifier: MIT
// lathe doctor DIR: what a model folder is, and what keeps it from running.
#include <algorithm>

#include "base/error.h"
#include "base/file_map.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/doctor_folder.h"
#include "cli/language_model.h"
#include "cli/model.h"
#include "llm/model/choose_target.h"
#include "llm/tokenizer/load.h"

namespace lathe::cli {
namespace {

// Rows of findings; every problem is told, and the first decides the exit code.
class Report {
 public:
  explicit Report(Output& out) : out_(out) {}

  void row(std::string_view name, std::string_view text) {
    out_.write(fmt::format("{:<12} {}\n", name, text));
    out_.flush();
  }
  // `look` tells what it finds; what it throws is a problem.
  template <class Look>
  void check(std::string_view name, Look&& look) {
    try {
      row(name, look());
    } catch (const Error& error) {
      std::string text = error.what();
      for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
        text.insert(at + 1, "             ");
      }
      row(name, fmt::format("problem: {}", text));
      if (code_ == 0) code_ = error_kind_info(error.kind()).exit_code;
    }
  }
  int code() const { return code_; }

 private:
  Output& out_;
  int code_ = 0;
};

std::vector<std::string> program_files(const llm::GenaiConfig& config) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  add(config.decoder.filename);
  for (const llm::StageConfig& stage : config.decoder.pipeline) add(stage.program.filename);
  if (config.encoder) add(config.encoder->filename);
  for (const auto& [name, part] : config.parts) add(part.filename);
  return names;
}

// The file, what its weights lie in, and that every operator of it is there.
std::string describe_program(const llm::ModelFolder& folder, const std::string& name) {
  const std::unique_ptr<Program> program = folder.load(name);
  size_t instructions = 0;
  for (const auto& module : program->modules()) instructions += module->instructions().size();
  std::vector<std::string> sizes;
  for (const std::string& file : files_of(folder.file(name), *program)) {
    sizes.push_back(
        fmt::format("{} ({})", escape(file.substr(file.rfind('/') + 1)),
                    llm::bytes_text(static_cast<int64_t>(FileMap::open(file)->bytes().size()))));
  }
  return fmt::format("{}: {} instructions, every operator known", fmt::join(sizes, ", "),
                     instructions);
}

std::string describe_tokenizer(const tokenizer::Tokenizer& tokenizer,
                               const llm::GenaiConfig& config) {
  const auto size = static_cast<int64_t>(tokenizer.size());
  check(config.vocab_size == 0 || size <= config.vocab_size, ErrorKind::invalid_model,
        "the tokenizer has {} tokens, the model's vocab_size is {}", size, config.vocab_size);
  std::vector<std::string> ends;
  for (const int64_t end : config.end_tokens) {
    const auto token = tokenizer.id_to_token(static_cast<uint32_t>(end));
    ends.push_back(fmt::format("{} {}", end, token ? escape(*token) : "(no such token)"));
  }
  return fmt::format("{} tokens; ends: {}", size, fmt::join(ends, ", "));
}

std::string describe_template(const templates::ChatTemplates& templates) {
  const std::string text = llm::render_messages(templates, {{"user", "Hello"}}, "");
  return fmt::format("'Hello' becomes '{}'", escape(text, 400));
}

void check_decoder(Report& report, const std::string& folder, const Options& options,
                   const std::shared_ptr<const Target>& target) {
  report.check("decoder", [&] {
    ThreadPool pool(static_cast<int>(options.integer("threads")));
    llm::DecoderOptions decoder_options;
    decoder_options.target = target;
    decoder_options.pool = &pool;
    decoder_options.memory_limit = options.integer("memory-limit");
    decoder_options.measured = [&](const llm::ModelSize& size) {
      report.row("memory",
                 fmt::format("weights {}, cache {} a token", llm::bytes_text(size.weight_bytes),
                             llm::bytes_text(size.row_bytes)));
    };
    const llm::Decoder decoder(folder, decoder_options);
    const int64_t context = decoder.config().context_length;
    report.row("memory", fmt::format("{} in all for a sequence of {} tokens",
                                     llm::bytes_text(decoder.size().bytes_at(context)), context));
    const llm::DecoderNotes notes = decoder.notes();
    return fmt::format("{} launches; {}", decoder.plan().modules.front().launches.size(),
                       notes.packed ? "rows of all sequences are packed"
                                    : "sequences run one by one: " + escape(notes.offender));
  });
}

}  // namespace

int doctor_folder(const std::string& path, const Options& options, Output& out) {
  Report report(out);
  std::optional<llm::ModelFolder> folder;
  report.check("folder", [&] {
    folder.emplace(path);
    return fmt::format("a {} of context {}", escape(folder->config().type),
                       folder->config().context_length);
  });
  if (!folder) return report.code();
  const llm::GenaiConfig& config = folder->config();
  for (const std::string& name : program_files(config)) {
    report.check("program", [&] { return describe_program(*folder, name); });
  }
  const std::string beside =
      config.tokenizer_folder.empty() ? path : join_path(path, config.tokenizer_folder);
  report.check("tokenizer",
               [&] { return describe_tokenizer(*tokenizer::load_tokenizer(beside), config); });
  try {
    static_cast<void>(templates::ChatTemplates::load(beside));
    report.check("template",
                 [&] { return describe_template(templates::ChatTemplates::load(beside)); });
  } catch (const Error& error) {
    // A model without one is no chat model.
    if (error.kind() != ErrorKind::invalid_argument) {
      report.check("template", [&]() -> std::string { throw error; });
    } else {
      report.row("template", "none: lathe chat wants one");
    }
  }
  std::shared_ptr<const Target> target;
  report.check("target", [&] {
    if (!options.origin("target").empty()) {
      target = find_target(options.text("target"));
      return std::string(target->name());
    }
    const llm::TargetChoice choice = choose_target(config, path);
    target = choice.target;
    return choice.warning.empty() ? std::string(target->name())
                                  : fmt::format("{} ({})", target->name(), choice.warning);
  });
  if (target != nullptr) check_decoder(report, path, options, target);
  return report.code();
}

}  // namespace lathe::cli
