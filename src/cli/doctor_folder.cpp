// SPDX-License-Identifier: MIT
// lathe doctor DIR: prints the contents and the problems of a model folder.
#include <algorithm>

#include "base/error.h"
#include "base/file_map.h"
#include "base/os_system.h"
#include "cli/commands.h"
#include "cli/doctor_folder.h"
#include "cli/encoder.h"
#include "cli/execution.h"
#include "cli/inspect_checkpoint.h"
#include "cli/language_model.h"
#include "cli/model.h"
#include "llm/tokenizer/load.h"

namespace lathe::cli {
namespace {

// Prints findings as rows and keeps the first problem.
class Report {
 public:
  explicit Report(Output& out) : out_(out) {}

  void row(std::string_view name, std::string_view text) {
    out_.write(fmt::format("{:<12} {}\n", name, text));
    out_.flush();
  }
  // Prints the result of `look`, or its error as a problem.
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
      if (!problem_) problem_ = error;
    }
  }
  void throw_problem() const {
    out_.flush();
    if (problem_) throw *problem_;
  }

 private:
  Output& out_;
  std::optional<Error> problem_;
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

// The files of a program and its number of instructions. Throws for unknown operators.
std::string describe_program(const llm::ModelFolder& folder, const std::string& name) {
  const std::unique_ptr<Program> program = folder.load(name);
  size_t instructions = 0;
  for (const auto& module : program->modules()) instructions += module->instructions().size();
  std::vector<std::string> sizes;
  const bool compiled = folder.compiled() != nullptr;
  for (const std::string& file : files_of(compiled ? folder.path() : folder.file(name), *program)) {
    sizes.push_back(
        fmt::format("{} ({})", escape(file.substr(file.rfind('/') + 1)),
                    llm::bytes_text(static_cast<int64_t>(FileMap::open(file)->bytes().size()))));
  }
  return fmt::format("{}: {} instructions, all operators supported", fmt::join(sizes, ", "),
                     instructions);
}

std::string describe_tokenizer(const tokenizer::Tokenizer& tokenizer,
                               const llm::GenaiConfig& config) {
  const auto size = static_cast<int64_t>(tokenizer.size());
  check(config.vocab_size == 0 || size <= config.vocab_size, ErrorKind::invalid_model,
        "the tokenizer has {} tokens, but the model's vocab_size is {}", size, config.vocab_size);
  std::vector<std::string> ends;
  for (const int64_t end : config.end_tokens) {
    const auto token = tokenizer.id_to_token(static_cast<uint32_t>(end));
    ends.push_back(fmt::format("{} {}", end, token ? escape(*token) : "(unknown token)"));
  }
  return fmt::format("{} tokens; end tokens: {}", size, fmt::join(ends, ", "));
}

std::string describe_template(const templates::ChatTemplates& templates) {
  const std::string text = llm::render_messages(templates, {{"user", "Hello"}}, "");
  return fmt::format("'Hello' is rendered as '{}'", escape(text, 400));
}

// The memory of a sequence of full context, and the longest sequence that fits.
std::string describe_context(const llm::ModelSize& size, int64_t context, int64_t available,
                             int64_t limit) {
  const int64_t all = size.bytes_at(context);
  const std::string text =
      fmt::format("{} in total for a sequence of {} tokens", llm::bytes_text(all), context);
  const bool fits = limit > 0 ? size.state_bytes(context) <= limit : all <= available;
  if (fits || (limit == 0 && available == 0) || size.token_bytes == 0) return text;
  const int64_t room = limit > 0 ? limit : available - size.all_weight_bytes();
  return fmt::format("warning: {}, but {}: {} tokens fit", text,
                     limit > 0 ? fmt::format("the KV cache limit is {}", llm::bytes_text(limit))
                               : fmt::format("{} are available", llm::bytes_text(available)),
                     std::max<int64_t>(room - size.sequence_bytes, 0) / size.token_bytes);
}

void check_decoder(Report& report, const std::string& folder, const std::string& overlay,
                   const Options& options, const FolderExecution& how) {
  report.check("decoder", [&] {
    ThreadPool pool(how.threads, options.boolean("pin-threads"));
    llm::DecoderOptions decoder_options;
    decoder_options.target = how.target.target;
    decoder_options.encoder_target = how.target.encoder;
    decoder_options.compute = compute_option(options);
    decoder_options.quantize = quantize_option(options);
    decoder_options.overlay = overlay;
    decoder_options.pool = &pool;
    decoder_options.passes = pass_options(options);
    const int64_t limit = decoder_options.memory_limit = options.integer("memory-limit");
    const int64_t available = system_memory().available_bytes;  // before the weights are loaded
    decoder_options.measured = [&](const llm::ModelSize& size) {
      report.row("memory", fmt::format("weights {}, KV cache {} per token",
                                       llm::bytes_text(size.all_weight_bytes()),
                                       llm::bytes_text(size.token_bytes)));
    };
    const llm::Decoder decoder(folder, decoder_options);
    const int64_t context = decoder.config().context_length;
    report.row("memory", describe_context(decoder.size(), context, available, limit));
    const llm::DecoderNotes notes = decoder.notes();
    return fmt::format("{} launches; {}", decoder.plan().modules.front().launches.size(),
                       notes.packed ? "tokens of all sequences are packed"
                                    : "one sequence per run: " + escape(notes.not_packed_reason));
  });
}

void doctor_encoder(const std::string& path, const Options& options, Output& out) {
  Report report(out);
  report.check("weights", [&] { return describe_types(weights_of_encoder(path)); });
  report.check("encoder", [&] {
    ThreadPool pool(static_cast<int>(options.integer("threads")), options.boolean("pin-threads"));
    const llm::SentenceEncoder encoder(path, encoder_options(options, pool));
    return fmt::format(
        "embeddings of {} elements, of texts of up to {} tokens (lathe embed); {} "
        "launches on {}",
        encoder.size(), encoder.max_tokens(), encoder.plan().modules.front().launches.size(),
        encoder.plan().target);
  });
  report.throw_problem();
}

}  // namespace

void doctor_folder(const std::string& path, const std::string& overlay, const Options& options,
                   Output& out) {
  if (is_encoder(path)) return doctor_encoder(path, options, out);
  Report report(out);
  std::optional<llm::ModelFolder> folder;
  report.check("folder", [&] {
    folder.emplace(path, overlay);
    return fmt::format("type {}, context of {} tokens", escape(folder->config().type),
                       folder->config().context_length);
  });
  if (!folder) return report.throw_problem();
  const llm::GenaiConfig& config = folder->config();
  for (const std::string& name : program_files(config)) {
    report.check("program", [&] { return describe_program(*folder, name); });
  }
  if (is_checkpoint(path)) report.check("weights", [&] { return describe_types(path); });
  const Folder beside = folder->beside();
  report.check("tokenizer",
               [&] { return describe_tokenizer(*tokenizer::load_tokenizer(beside), config); });
  try {
    static_cast<void>(templates::ChatTemplates::load(beside));
    report.check("template",
                 [&] { return describe_template(templates::ChatTemplates::load(beside)); });
  } catch (const Error& error) {
    // A model without a template is valid.
    if (error.kind() != ErrorKind::invalid_argument) {
      report.check("template", [&]() -> std::string { throw error; });
    } else {
      report.row("template", "none; lathe chat requires one");
    }
  }
  std::optional<FolderExecution> how;
  report.check("target", [&] {
    how = execution_of_folder(config, path, options);
    const auto& [target, encoder, warning] = how->target;
    std::string text(target->name());
    if (config.encoder && encoder != target) {
      text += fmt::format(", the encoder on {}", encoder->name());
    }
    return warning.empty() ? text : fmt::format("{} ({})", text, warning);
  });
  if (how) check_decoder(report, path, overlay, options, *how);
  report.throw_problem();
}

}  // namespace lathe::cli
