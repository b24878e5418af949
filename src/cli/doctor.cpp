// SPDX-License-Identifier: MIT
#include <thread>

#include "base/file_map.h"
#include "base/os_environment.h"
#include "base/os_system.h"
#include "cli/commands.h"
#include "cli/doctor_folder.h"
#include "cli/language_model.h"
#include "codegen/kernel.h"
#include "import/checkpoint/formats_markdown.h"
#include "ir/op.h"
#include "targets/gpu/report.h"
#include "targets/target.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kBuild =
#ifdef NDEBUG
    "release"
#else
    "debug"
#endif
    ;

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string gibibytes(int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

void row(Output& out, std::string_view name, std::string_view value) {
  out.write(fmt::format("{:<12} {}\n", name, value));
}

void print_machine(Output& out) {
  const SystemInfo system = system_info();
  row(out, "system", system.kernel);
  row(out, "processor",
      fmt::format("{}, {} of {} cores available", system.processor, system.available_cores,
                  std::thread::hardware_concurrency()));
  row(out, "features", fmt::format("{}", fmt::join(system.features, " ")));
  row(out, "memory",
      fmt::format("{} of {} available", gibibytes(system.memory.available_bytes),
                  gibibytes(system.memory.total_bytes)));
}

void print_targets(Output& out) {
  const std::string_view best = targets_best_first().front();
  for (const std::string_view name : target_names()) {
    row(out, "target",
        fmt::format("{}: {}{}", name, find_target(name)->doc(), name == best ? " (auto)" : ""));
  }
}

// Prints the options with an explicit value and its origin.
void print_options(Output& out, const Options& options) {
  for (const OptionInfo& option : option_table()) {
    const std::string& origin = options.origin(option.name);
    if (origin.empty()) continue;
    row(out, "option",
        fmt::format("{} = {} (from {})", option.name, escape(options.text(option.name)), origin));
  }
}

}  // namespace

int doctor(CommandLine& line) {
  bool markdown = false;
  bool formats = false;
  std::string folder;
  std::string overlay;
  line.model("DIR", folder, "Model folder to check. Default: prints version, machine and options.",
             true);
  line.flag("--options-markdown", markdown, "Prints docs/options.md.");
  line.flag("--formats-markdown", formats, "Prints docs/formats.md.");
  declare_overlay(line, overlay);
  line.options({"target", "compute", "quantize", "threads", "pin-threads", "memory-limit",
                "gpu-libraries", "timeout", "seed", "round-trip", "verify-each-pass"});
  if (!line.parse()) return 0;
  Output& out = line.out();
  if (!folder.empty()) {
    line.refuse({"--options-markdown", "--formats-markdown", "--gpu-libraries", "--timeout",
                 "--seed", "--round-trip", "--verify-each-pass"},
                fmt::format("the model folder '{}'", escape(folder)));
  }
  if (markdown || formats) {
    out.write(markdown ? options_markdown() : checkpoint::formats_markdown());
    return 0;
  }
  if (!folder.empty()) {
    doctor_folder(folder, overlay, line.options(), out);
    return 0;
  }
  line.refuse({"--config"}, "the machine: it requires a model folder");
  row(out, "version", fmt::format("lathe {} ({}, {})", LATHE_VERSION, kBuild, compiler()));
  print_machine(out);
  print_targets(out);
  for (const auto& [name, text] : gpu::report()) row(out, name, text);
  row(out, "codegen", codegen::generation_status());
  row(out, "ops", fmt::format("{}", all_ops().size()));
  print_options(out, line.options());
  return 0;
}

}  // namespace lathe::cli
