// SPDX-License-Identifier: MIT
// Costs of the runtime itself: launches, heap allocations, memory, sessions, callers, steps of many
// sequences, choosing tokens, reading a lowered program. Prints a table, or JSON.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "bench/runtime/decoders.h"
#if __has_include("plan/packing_source.h")
#include "bench/runtime/emptied.h"
#define LATHE_EMPTIED  // older commits have no such plans
#endif
#include "bench/runtime/models.h"
#include "bench/runtime/programs.h"
#include "bench/runtime/sampling.h"

// glibc's own allocation functions, under the names that it keeps for replacements.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

#define LATHE_REPLACES __attribute__((visibility("default")))
LATHE_REPLACES void* malloc(size_t bytes) noexcept {
  lathe::bench::count_allocation();
  return __libc_malloc(bytes);
}
LATHE_REPLACES void* calloc(size_t count, size_t bytes) noexcept {
  lathe::bench::count_allocation();
  return __libc_calloc(count, bytes);
}
LATHE_REPLACES void* realloc(void* block, size_t bytes) noexcept {
  lathe::bench::count_allocation();
  return __libc_realloc(block, bytes);
}
LATHE_REPLACES void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  lathe::bench::count_allocation();
  return __libc_memalign(alignment, bytes);
}
LATHE_REPLACES int posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  lathe::bench::count_allocation();
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
}

namespace lathe::bench {
namespace {

enum class Needs { nothing, models, decoders };

std::string_view to_string(Needs needs) {
  constexpr std::array<std::string_view, 3> kNames{"nothing", "models", "decoders"};
  return kNames[static_cast<size_t>(needs)];
}

struct Row {
  std::string_view name;
  Needs needs;
  Lines (*measure)(const Settings&);
};

constexpr auto kRows = std::to_array<Row>({
    {"launches", Needs::nothing, measure_launches},
    {"run-allocations", Needs::models, measure_run_allocations},
    {"step-allocations", Needs::decoders, measure_step_allocations},
    {"memory", Needs::models, measure_session_memory},
    {"new-bindings", Needs::models, measure_new_bindings},
#ifdef LATHE_EMPTIED
    {"emptied", Needs::models, measure_emptied},
#endif
    {"found-shapes", Needs::nothing, measure_found_shapes},
    {"sessions", Needs::nothing, measure_sessions},
    {"callers", Needs::nothing, measure_callers},
    {"steps", Needs::decoders, measure_steps},
    {"choosing", Needs::nothing, measure_choosing},
    {"sampled", Needs::decoders, measure_sampled},
    {"text", Needs::models, measure_texts},
});

std::string row_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// NAME=PATH, or a path, which names itself.
Model parse_model(const std::string& text) {
  const size_t at = text.find('=');
  if (at != std::string::npos && text.find('/') > at) {
    return {text.substr(0, at), text.substr(at + 1)};
  }
  return {std::filesystem::path(text).stem(), text};
}

// The rows that were named, or all that have what they need.
std::vector<const Row*> chosen_rows(const std::vector<std::string>& names,
                                    const Settings& settings) {
  std::vector<const Row*> rows;
  for (const Row& row : kRows) {
    if (!names.empty() && std::ranges::find(names, row.name) == names.end()) continue;
    const bool able = row.needs == Needs::nothing ||
                      !(row.needs == Needs::models ? settings.models : settings.decoders).empty();
    check(able || names.empty(), ErrorKind::invalid_argument, "row '{}' requires {}", row.name,
          row.needs == Needs::models ? "--model" : "--decoder");
    if (able) rows.push_back(&row);
  }
  for (const std::string& name : names) {
    check(std::ranges::find(kRows, name, &Row::name) != kRows.end(), ErrorKind::invalid_argument,
          "unknown row '{}'; rows: {}", escape(name), row_names());
  }
  return rows;
}

void print_table(const Row& row, const Lines& lines) {
  for (const Line& line : lines) {
    fmt::print("{:<16} {:>12} {:<8} {}{}{}\n", row.name, fmt::format("{:.4g}", line.value),
               line.unit, line.subject, line.subject.empty() ? "" : ": ", line.what);
  }
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Row& row, const Line& line) {
  return {{"row", row.name},
          {"subject", line.subject},
          {"what", line.what},
          {"value", line.value},
          {"unit", line.unit},
          {"counted", line.counted},
          {"better", line.more_is_better ? "more" : "less"},
          {"results", line.results}};
}

void run(int count, char** words) {
  std::vector<std::string> names, models, decoders, dims;
  std::string target = "cpu";
  int threads = 0;
  bool json = false, list = false;
  CLI::App app{"Measures the costs of the runtime itself."};
  app.add_option("--rows", names,
                 "Rows to measure (default: all that have what they need): " + row_names())
      ->delimiter(',');
  app.add_option("--model", models, "[NAME=]FILE, an ONNX file; may be repeated");
  app.add_option("--decoder", decoders, "[NAME=]FOLDER, a model folder; may be repeated");
  app.add_option("--dim", dims, "NAME=SIZE of a symbolic dim of models (default 1)");
  app.add_option("--target", target, "Target (default cpu)");
  app.add_option("--threads", threads, "Threads of models and decoders (default: all cores)");
  app.add_flag("--json", json, "Prints JSON");
  app.add_flag("--list", list, "Prints the rows and what they need, as JSON, and measures nothing");
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (list) {
    nlohmann::ordered_json needs;
    for (const Row& row : kRows) needs[std::string(row.name)] = to_string(row.needs);
    fmt::print("{}\n", needs.dump(1));
    return;
  }
  ThreadPool pool(threads);
  Settings settings;
  settings.target = find_target(target);
  settings.pool = &pool;
  for (const std::string& text : models) settings.models.push_back(parse_model(text));
  for (const std::string& text : decoders) settings.decoders.push_back(parse_model(text));
  for (const std::string& text : dims) {
    const size_t at = text.find('=');
    check(at != std::string::npos, ErrorKind::invalid_argument,
          "--dim requires NAME=SIZE, got '{}'", escape(text));
    settings.dims[text.substr(0, at)] = std::stoll(text.substr(at + 1));
  }
  const std::vector<const Row*> rows = chosen_rows(names, settings);
  if (!json) {
    fmt::print("target {}, {} threads; the fastest of several calls\n", target, pool.threads());
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row* row : rows) {
    const Lines lines = row->measure(settings);
    if (!json) print_table(*row, lines);
    for (const Line& line : lines) all.push_back(to_json(*row, line));
  }
  if (json) fmt::print("{}\n", all.dump(1));
}

}  // namespace
}  // namespace lathe::bench

int main(int count, char** words) {
  try {
    lathe::bench::run(count, words);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
