// SPDX-License-Identifier: MIT
#include "cli/commands.h"
#include "cli/execution.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "cli/trace.h"

namespace lathe::cli {

int run(CommandLine& line) {
  ProgramArguments model;
  InputArguments input;
  OutputArguments output;
  TuneArguments tuning;
  int64_t runs = 1;
  std::string trace;
  model.declare(line);
  input.declare(line);
  output.declare(line);
  tuning.declare(line);
  line.integer("--runs", runs, 1, 1 << 30, "Number of runs; states carry over; prints the last.");
  line.text("--trace", trace, "FILE", "Writes launch times for chrome://tracing or Perfetto.");
  line.options({"target", "compute", "threads", "memory-limit", "timeout", "seed",
                "verify-each-pass", "round-trip"});
  if (!line.parse()) return 0;

  std::unique_ptr<Program> program = model.load(input);
  const Inputs inputs =
      make_inputs(*program, input, static_cast<uint64_t>(line.options().integer("seed")));
  const std::vector<std::string> names = program->main().result_names();
  std::vector<std::string> read = files_of(model.model, *program);
  read.insert(read.end(), inputs.files.begin(), inputs.files.end());
  if (!output.labels.empty()) read.push_back(output.labels);
  output.check_files(names, read);
  const std::shared_ptr<Tuning> tuned = tuning.tune(*program, inputs.values, line.options());
  Execution execution(std::move(program), line.options(), tuned);
  Trace profile(trace, read);
  RunOptions options = execution.run_options();
  options.profiler = profile.profiler();
  std::vector<Box> results;
  for (int64_t i = 0; i < runs; ++i) results = execution.session().run(inputs.values, options);
  const NamedOutputs outputs{names, results};
  print_outputs(outputs, output, line.out());
  line.out().flush();
  write_outputs(outputs, output);
  profile.write();
  return 0;
}

}  // namespace lathe::cli
