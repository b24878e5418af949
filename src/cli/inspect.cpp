// SPDX-License-Identifier: MIT
#include "base/file_map.h"
#include "cli/commands.h"
#include "cli/execution.h"
#include "cli/formats.h"
#include "cli/inspect_checkpoint.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "ir/literal_file.h"
#include "ir/print.h"
#include "llm/model/model_folder.h"
#include "targets/pack_weights.h"

namespace lathe::cli {
namespace {

std::string formatted(const Program& program, std::string_view format) {
  if (format == "json") return program_json(program);
  if (format == "dot") return program_dot(program);
  if (format == "svg") return program_svg(program);
  if (format == "onnx") return program_onnx(program);
  return print(program);
}

}  // namespace

int inspect(CommandLine& line) {
  ProgramArguments model;
  std::string format = "text";
  std::string stage;
  std::string literals;
  model.declare(line, ProgramArguments::Others::language_models);
  line.choice("--format", format, {"text", "json", "dot", "svg", "onnx"},
              "Output format (default text); onnx is for viewers such as Netron.");
  line.text(
      "--stop-after", stage, "STAGE",
      fmt::format("Last stage to run: {} (default imported).", fmt::join(stage_names(), ", ")));
  line.text("--literals", literals, "FILE",
            "Writes the literals that the text names by hash. Loading MODEL.lathe.txt reads "
            "MODEL.lathe.txt.literals.");
  line.options({"target", "verify-each-pass", "round-trip"});
  if (!line.parse()) return 0;

  const std::optional<Stage> last = parse_stage(stage, "--stop-after");
  const bool folder = is_folder(model.model);
  const bool summary = !last && literals.empty() && (format == "text" || format == "json");
  if (summary && is_checkpoint(model.model)) {
    line.out().write(describe_checkpoint(model.model, format == "json"));
    return 0;
  }
  if (summary && !folder && is_compiled_model(model.model)) {
    line.out().write(describe_compiled(model.model, format == "json"));
    return 0;
  }
  std::unique_ptr<Program> program = folder || is_checkpoint(model.model)
                                         ? llm::ModelFolder(model.model).load_decoder().program
                                         : model.load();
  if (last) {
    const CompileOptions options = compile_options(line.options());
    run_pipeline(*program, options, *last);
    add_packings(*program, options);
  }
  if (!literals.empty()) {
    check_output_file("--literals", literals, files_of(model.model, *program));
    write_literals(literals, *program);
  }
  line.out().write(formatted(*program, format));
  return 0;
}

}  // namespace lathe::cli
