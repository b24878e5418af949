// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "base/file_map.h"
#include "base/os_memory.h"
#include "cli/commands.h"
#include "cli/count.h"
#include "cli/execution.h"
#include "cli/language_model.h"
#include "cli/model.h"
#include "cli/perf_folder.h"
#include "cli/profile.h"
#include "cli/trace.h"
#include "plan/device_copies.h"

namespace lathe::cli {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

struct Measurement {
  std::string model;
  std::string target;
  int64_t threads = 0;
  double load_ms = 0;
  double compile_ms = 0;
  double first_ms = 0;
  std::vector<double> latencies;  // ascending
  Profile profile;
  int64_t peak_bytes = 0;
  int64_t session_bytes = 0;
  std::vector<std::string> inputs;
  std::vector<std::string> on_device;  // inputs and outputs, with --device-io
};

// Interpolates linearly between the two nearest of the sorted values; `fraction` is 0 to 1.
double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Every measured run starts from empty states.
double time_run(Session& session, const std::vector<Box>& inputs, std::vector<Box>& results,
                const RunOptions& options) {
  session.reset();
  const Clock::time_point begin = Clock::now();
  session.run(inputs, results, options);
  return Milliseconds(Clock::now() - begin).count();
}

// Values in the memory of the plan's device, where its kernels read and write them there.
struct OnDevice {
  std::vector<Box> inputs;
  std::vector<const Device*> results;  // null: the host
  std::vector<std::string> names;      // of those that lie there
};

OnDevice place_on_device(const Plan& plan, const std::vector<Box>& inputs) {
  check(plan.device != nullptr, ErrorKind::invalid_argument,
        "--device-io requires a target with memory of its own, such as gpu; '{}' has none",
        plan.target);
  OnDevice placed{inputs, {}, {}};
  const Module& main = plan.program->main();
  const std::unique_ptr<Stream> stream = plan.device->make_stream();
  std::vector<Tensor> sources;  // until they are copied
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor() || !reads_on_device(plan, i)) continue;
    const Tensor& dense = sources.emplace_back(inputs[i].tensor().clone());
    Tensor copy = make_tensor(*plan.device, dense.type(), Dims(dense.dims()));
    stream->copy(copy.data(), dense.data(), static_cast<size_t>(dense.byte_size()));
    placed.inputs[i] = Box{std::move(copy)};
    placed.names.push_back(escape(main.parameters()[i]->name()));
  }
  stream->synchronize();
  for (size_t i = 0; i < main.results().size(); ++i) {
    placed.results.push_back(writes_on_device(plan, i) ? plan.device : nullptr);
    if (placed.results.back() != nullptr) placed.names.push_back(escape(main.result_names()[i]));
  }
  return placed;
}

nlohmann::ordered_json to_json(const std::vector<ProfileRow>& rows, double total) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ProfileRow& row : rows) {
    list.push_back({{"name", row.name},
                    {"op", row.op},
                    {"result", row.result},
                    {"calls", row.calls},
                    {"ms", row.milliseconds},
                    {"share", total > 0 ? row.milliseconds / total : 0.0}});
  }
  return list;
}

std::string json_text(const Measurement& m) {
  nlohmann::ordered_json json;
  json["model"] = m.model;
  json["target"] = m.target;
  json["threads"] = m.threads;
  json["inputs"] = m.inputs;
  json["on_device"] = m.on_device;
  json["iterations"] = m.latencies.size();
  json["load_ms"] = m.load_ms;
  json["compile_ms"] = m.compile_ms;
  json["first_run_ms"] = m.first_ms;
  json["latency_ms"] = {{"min", m.latencies.front()},
                        {"p50", percentile(m.latencies, 0.5)},
                        {"p90", percentile(m.latencies, 0.9)},
                        {"p99", percentile(m.latencies, 0.99)},
                        {"mean", mean(m.latencies)}};
  json["runs_per_second"] = 1000.0 / mean(m.latencies);
  json["peak_memory_bytes"] = m.peak_bytes;
  json["session_memory_bytes"] = m.session_bytes;
  json["overhead_ms"] = m.profile.overhead_ms;
  for (const auto& [place, milliseconds] : m.profile.places) {
    json["shares"][place] = m.profile.total_ms > 0 ? milliseconds / m.profile.total_ms : 0;
  }
  json["instructions"] = to_json(m.profile.instructions, m.profile.total_ms);
  json["ops"] = to_json(m.profile.ops, m.profile.total_ms);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void print_rows(Output& out, const std::vector<ProfileRow>& rows, double total, size_t most,
                bool is_op) {
  double rest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ProfileRow& row = rows[i];
    if (i >= most) {
      rest += row.milliseconds;
      continue;
    }
    const double share = total > 0 ? 100 * row.milliseconds / total : 0;
    out.write(fmt::format("  {:>10.4f} {:>6.1f} {:>6}  {}\n", row.milliseconds, share, row.calls,
                          is_op ? row.op : fmt::format("{} : {}", row.name, row.result)));
  }
  if (rows.size() > most) {
    out.write(fmt::format("  {:>10.4f} {:>6.1f} {:>6}  ({} more)\n", rest,
                          total > 0 ? 100 * rest / total : 0, "", rows.size() - most));
  }
}

void print_table(Output& out, const Measurement& m, bool all) {
  constexpr size_t kShown = 20;
  const size_t most = all ? std::numeric_limits<size_t>::max() : kShown;
  out.write(fmt::format("{} on {}, {} threads\n", escape(m.model), m.target, m.threads));
  for (const std::string& input : m.inputs) out.write(fmt::format("  {}\n", input));
  if (!m.on_device.empty()) {
    out.write(fmt::format("  on the device: {}\n", fmt::join(m.on_device, ", ")));
  }
  out.write(fmt::format("\nload {:.2f} ms, compile {:.2f} ms, first run {:.2f} ms\n", m.load_ms,
                        m.compile_ms, m.first_ms));
  out.write(
      fmt::format("latency of {} runs in ms: min {:.4f}, p50 {:.4f}, p90 {:.4f}, p99 {:.4f}, "
                  "mean {:.4f} ({:.1f} runs per second)\n",
                  m.latencies.size(), m.latencies.front(), percentile(m.latencies, 0.5),
                  percentile(m.latencies, 0.9), percentile(m.latencies, 0.99), mean(m.latencies),
                  1000.0 / mean(m.latencies)));
  constexpr double kMebi = 1 << 20;
  out.write(fmt::format("peak memory {:.1f} MiB, of which the session {:.1f} MiB\n",
                        static_cast<double>(m.peak_bytes) / kMebi,
                        static_cast<double>(m.session_bytes) / kMebi));
  out.write("\ntime per target:");
  const char* comma = " ";
  for (const auto& [place, milliseconds] : m.profile.places) {
    out.write(fmt::format("{}{} {:.1f} %", comma, place, 100 * milliseconds / m.profile.total_ms));
    comma = ", ";
  }
  out.write(fmt::format(", between instructions {:.1f} %\n",
                        100 * m.profile.overhead_ms / m.profile.total_ms));
  out.write("\n          ms      %  calls  op\n");
  print_rows(out, m.profile.ops, m.profile.total_ms, most, true);
  out.write("\n          ms      %  calls  instruction\n");
  print_rows(out, m.profile.instructions, m.profile.total_ms, most, false);
  out.write(fmt::format("  {:>10.4f} {:>6.1f} {:>6}  between instructions\n", m.profile.overhead_ms,
                        100 * m.profile.overhead_ms / m.profile.total_ms, ""));
}

}  // namespace

int perf(CommandLine& line) {
  ProgramArguments model;
  InputArguments input;
  TuneArguments tuning;
  int64_t iterations = 30;
  int64_t warmup = 3;
  bool json = false;
  bool all = false;
  bool count = false;
  bool device_io = false;
  std::string trace;
  FolderMeasure folder;
  model.declare(line, ProgramArguments::Others::language_models);
  input.declare(line);
  tuning.declare(line);
  line.integer("--iterations,-n", iterations, 1, 1000000,
               "Measured runs (default of a model folder: 3).");
  line.integer("--warmup", warmup, 0, 1000000,
               "Warm-up runs, not measured (default of a model folder: 1).");
  line.flag("--json", json, "Prints one JSON object: latency_ms, peak_memory_bytes, …");
  line.flag("--all", all, "Lists every instruction, not only the slowest.");
  line.flag("--count", count,
            "With --target gpu:host: what kernels read and write in one run, not times.");
  line.flag("--device-io", device_io,
            "Keeps inputs and outputs in the device's memory: runs copy none of them.");
  line.text("--trace", trace, "FILE",
            "Writes the launch times of one run for chrome://tracing or Perfetto.");
  line.integer("--prompt-tokens", folder.prompt_tokens, 1, 10'000'000,
               "Model folders: tokens of the prompt.");
  line.integer("--new-tokens", folder.new_tokens, 1, 10'000'000,
               "Model folders: generated tokens.");
  line.integer("--sequences", folder.sequences, 1, 4096,
               "Model folders: sequences that generate together, each with its own prompt.");
  declare_overlay(line, folder.overlay);
  line.options({"target", "compute", "quantize", "threads", "pin-threads", "memory-limit",
                "timeout", "seed"});
  if (!line.parse()) return 0;
  if (count) {
    line.refuse({"--json", "--all", "--trace", "--tune", "--iterations", "--warmup", "--device-io"},
                "--count");
    start_counting(line.options());
  }
  if (is_language_model(model.model)) {
    line.refuse({"--state", "--input", "--fill", "--mean", "--std", "--scale", "--layout", "--all",
                 "--trace", "--seed", "--tune", "--device-io"},
                fmt::format("the model folder '{}'", escape(model.model)));
    folder.folder = model.model;
    if (line.has("--iterations")) folder.iterations = iterations;
    if (line.has("--warmup")) folder.warmup = warmup;
    folder.json = json;
    if (!count) return perf_folder(folder, line.options(), line.out());
    generate_once(folder, line.options());
    print_counts(line.out());
    return 0;
  }

  line.refuse({"--config", "--quantize", "--prompt-tokens", "--new-tokens", "--sequences"},
              fmt::format("'{}', which is not a model folder", escape(model.model)));
  Measurement m;
  Clock::time_point begin = Clock::now();
  std::unique_ptr<Program> program = model.load(input);
  m.load_ms = Milliseconds(Clock::now() - begin).count();
  Inputs inputs =
      make_inputs(*program, input, static_cast<uint64_t>(line.options().integer("seed")));
  for (size_t i = 0; i < inputs.values.size(); ++i) {
    m.inputs.push_back(describe_input(*program->main().parameters()[i], inputs.values[i]));
  }
  std::vector<std::string> read = files_of(model.model, *program);
  read.insert(read.end(), inputs.files.begin(), inputs.files.end());
  Trace traced(trace, read);
  const std::shared_ptr<Tuning> tuned = tuning.tune(*program, inputs.values, line.options());
  begin = Clock::now();
  Execution execution(std::move(program), line.options(), tuned);
  m.compile_ms = Milliseconds(Clock::now() - begin).count();
  m.model = model.model;
  m.target = execution.plan().target;
  m.threads = execution.threads();

  Session& session = execution.session();
  RunOptions options = execution.run_options();
  OnDevice placed;
  if (device_io) {
    placed = place_on_device(execution.plan(), inputs.values);
    inputs.values = placed.inputs;
    options.devices = placed.results;
    m.on_device = placed.names;
  }
  std::vector<Box> results(execution.plan().program->main().results().size());
  if (count) {
    session.run(inputs.values, results, options);
    print_counts(line.out());
    return 0;
  }
  m.first_ms = time_run(session, inputs.values, results, options);
  for (int64_t i = 0; i < warmup; ++i) time_run(session, inputs.values, results, options);
  for (int64_t i = 0; i < iterations; ++i) {
    m.latencies.push_back(time_run(session, inputs.values, results, options));
  }
  std::sort(m.latencies.begin(), m.latencies.end());
  Profiler profiler;
  options.profiler = &profiler;
  ProfileSum sum;
  constexpr int64_t kProfiled = 10;
  for (int64_t i = 0; i < std::min(iterations, kProfiled); ++i) {
    profiler.clear();
    sum.add(profiler, time_run(session, inputs.values, results, options));
  }
  m.profile = sum.mean();
  if (traced.profiler() != nullptr) {
    options.profiler = traced.profiler();
    time_run(session, inputs.values, results, options);
    traced.write();
  }
  m.peak_bytes = peak_resident_bytes();
  m.session_bytes = session.memory().peak();
  if (json) {
    line.out().write(json_text(m));
  } else {
    print_table(line.out(), m, all);
  }
  return 0;
}

}  // namespace lathe::cli
