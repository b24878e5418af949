// SPDX-License-Identifier: MIT
#include <charconv>
#include <cstdio>

#include "base/file_map.h"
#include "base/os_memory.h"
#include "cli/compile.h"
#include "cli/execution.h"
#include "cli/language_model.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "ir/compiled_source.h"
#include "llm/model/compiled_model.h"
#include "targets/fix_dims.h"
#include "targets/save_program.h"

namespace lathe::cli {
namespace {

int64_t parse_size(std::string_view text, const std::string& flag) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(status == std::errc() && end == text.data() + text.size() && value >= 0,
        ErrorKind::invalid_argument, "--dim is '{}', expected NAME=SIZE or NAME=LEAST..MOST",
        escape(flag));
  return value;
}

DimRange parse_dim(const std::string& flag) {
  const size_t equals = flag.find('=');
  check(equals != std::string::npos && equals > 0, ErrorKind::invalid_argument,
        "--dim is '{}', expected NAME=SIZE or NAME=LEAST..MOST", escape(flag));
  const std::string_view sizes = std::string_view(flag).substr(equals + 1);
  const size_t dots = sizes.find("..");
  DimRange dim{flag.substr(0, equals), {}, {}};
  dim.range.min = parse_size(sizes.substr(0, dots), flag);
  dim.range.max =
      dots == std::string_view::npos ? dim.range.min : parse_size(sizes.substr(dots + 2), flag);
  check(dim.range.min <= dim.range.max, ErrorKind::invalid_argument,
        "--dim '{}' has the range {}..{}", escape(dim.name), dim.range.min, dim.range.max);
  return dim;
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

void print_sizes(Output& out, const std::string& file, std::string_view target,
                 const SavedSizes& sizes) {
  std::string text = fmt::format("{}: {}, {} of weights packed for {}", escape(file),
                                 megabytes(sizes.file), megabytes(sizes.packed), target);
  if (sizes.stored_twice > 0) {
    text += fmt::format(", {} of them stored twice: their packing has no exact inverse",
                        megabytes(sizes.stored_twice));
  }
  out.write(text + "\n");
}

void compile_folder(const std::string& path, const std::string& overlay, const std::string& file,
                    const CommandLine& line) {
  const FolderExecution how =
      execution_of_folder({.folder = path, .overlay = overlay}, line.options());
  llm::DecoderOptions options;
  ThreadPool pool(how.threads);
  options.pool = &pool;
  options.target = how.target.target;
  options.encoder_target = how.target.encoder;
  options.overlay = overlay;
  options.compute = compute_option(line.options());
  options.quantize = quantize_option(line.options());
  options.passes = pass_options(line.options());
  FileWriter writer(file);
  const SavedSizes sizes =
      llm::save_model(path, options, [&](std::string_view bytes) { writer.write(bytes); });
  // The decoder's passes must make the programs that the file has.
  options.overlay.clear();
  options.quantize = {};
  if (!writer.temporary().empty()) {
    try {
      const llm::Decoder opened(writer.temporary(), options);
    } catch (Error& error) {
      error.note("while opening the compiled file, which is dropped");
      throw;
    }
  }
  writer.commit();
  print_sizes(line.out(), file, options.target->name(), sizes);
}

}  // namespace

int compile_file(CommandLine& line) {
  ProgramArguments model;
  std::string file;
  std::string overlay;
  std::vector<std::string> dims;
  InputArguments input;
  TuneArguments tuning;
  model.declare(line, ProgramArguments::Others::language_models);
  line.text("--output,-o", file, "FILE", "The compiled file to write.");
  line.texts("--dim", dims, "NAME=SIZES",
             "Fixes a dim (batch=8) or bounds it (batch=1..64), for smaller plans.");
  tuning.declare(line);
  line.texts("--fill", input.fills, "NAME=VALUE",
             "Size of a dim or value of an input, with which --tune measures.");
  line.options(
      {"target", "compute", "quantize", "threads", "timeout", "verify-each-pass", "round-trip"});
  declare_overlay(line, overlay);
  if (!line.parse()) return 0;
  check(!file.empty(), ErrorKind::invalid_argument, "missing {}: the compiled file to write",
        "--output");
  const std::string shown = escape(model.model);
  if (is_language_model(model.model)) {
    line.refuse({"--state", "--dim", "--timeout", "--tune", "--fill"},
                fmt::format("the model folder '{}'", shown));
    check_output_file("--output", file, files_of_model(model.model));
    compile_folder(model.model, overlay, file, line);
    return 0;
  }
  line.refuse({"--config", "--quantize"}, fmt::format("'{}', which is not a model folder", shown));
  std::vector<DimRange> ranges;
  for (const std::string& dim : dims) ranges.push_back(parse_dim(dim));
  std::unique_ptr<Program> program = model.load();
  check_output_file("--output", file, files_of(model.model, *program));
  const CompiledSource* compiled = compiled_source(*program);
  if (!ranges.empty() && compiled != nullptr) program = compiled->portable();
  set_dims(*program, ranges);
  if (!tuning.used()) line.refuse({"--fill"}, "a compilation without --tune, which runs nothing");
  CompileOptions options = compile_options(line.options());
  if (tuning.used()) {
    const Inputs inputs =
        make_inputs(*program, input, static_cast<uint64_t>(line.options().integer("seed")));
    options.tuning = tuning.tune(*program, inputs.values, line.options());
  }
  const Execution execution(std::move(program), line.options(), options.tuning);
  print_sizes(line.out(), file, execution.plan().target,
              save_program(execution.plan(), options, file));
  return 0;
}

}  // namespace lathe::cli
