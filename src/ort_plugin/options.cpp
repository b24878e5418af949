// SPDX-License-Identifier: MIT
#include "ort_plugin/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/error.h"
#include "base/options.h"
#include "targets/gpu_library.h"
#include "targets/target.h"

namespace lathe::ort_plugin {
namespace {

constexpr auto kWorks = OptionUse::works;
constexpr auto kNoEffect = OptionUse::no_effect;
constexpr auto kRefused = OptionUse::refused;

constexpr std::string_view kSymbolicShapes =
    "one compilation serves all shapes, so nothing is padded";
constexpr std::string_view kHostMemory = "this target computes in host memory";

constexpr auto kOptions = std::to_array<EpOption>({
    // Lathe's own
    {"threads", "integer", kWorks,
     "compute threads, shared by sessions with the same number; default: one per core"},
    {"compute", "text", kWorks,
     "as_model, int8, bf16 or f32: the type that matrix multiplications with constant weights "
     "compute in"},
    {"target", "text", kWorks,
     "auto, cpu, ref, or a GPU: gpu, cuda, hip, with :1 the second; where kernels run"},
    {"strict", "boolean", kWorks,
     "1: a session with a node that Lathe does not run is an error that lists all of them"},
    {"memory_limit", "bytes", kWorks, "scratch and results of a session: 512M, 2G; default: none"},
    {"log", "integer", kWorks, "0 to 6: details of compilation in the session's log"},
    {"trace", "path", kWorks,
     "file that receives kernel times and copied bytes, as trace events (JSON)"},
    {"refuse", "text", kWorks,
     "operators that are left to other EPs, for tests: HardSigmoid,Softmax"},
    {"cache_dir", "path", kWorks,
     "folder that keeps compiled groups as files .lathe, which later sessions on equal models "
     "load; "
     "made if it does not exist"},
    {"tune", "number", kWorks,
     "seconds, at most 86400: measures other ways to compute the products and convolutions of each "
     "group and takes the faster ones, with sizes from free dimension overrides where a graph has "
     "symbols; a group from a file keeps the file's choices"},
    // EPs of MIGraphX
    {"device_id", "integer", kWorks, "number of the GPU that target names; 0 on the CPU"},
    {"fp16_enable", "boolean", kWorks,
     "means compute=bf16: on the CPU, bf16 is the fast 16-bit type"},
    {"bf16_enable", "boolean", kWorks, "means compute=bf16"},
    {"int8_enable", "boolean", kWorks,
     "means compute=int8: weights and activations are quantised per row, without calibration"},
    {"mem_limit", "bytes", kWorks, "means memory_limit"},
    {"exhaustive_tune", "boolean", kWorks, "means tune=60"},
    {"save_compiled_model", "boolean", kWorks,
     "1: writes compiled groups to save_model_path; those after the first get NAME_2.lathe and so "
     "on"},
    {"load_compiled_model", "boolean", kWorks,
     "1: loads compiled groups from load_model_path; a file that is missing, damaged or of another "
     "model is a warning, with strict an error, and its group is compiled"},
    {"save_model_path", "path", kWorks, "file .lathe to write; default: compiled_model.lathe"},
    {"load_model_path", "path", kWorks, "file .lathe to load; default: compiled_model.lathe"},
    {"save_compiled_path", "path", kWorks, "means save_model_path"},
    {"load_compiled_path", "path", kWorks, "means load_model_path"},
    {"model_cache_dir", "path", kWorks, "means cache_dir"},
    {"fp8_enable", "boolean", kRefused,
     "matrix multiplications in 8-bit floats have no kernel on the CPU: use compute=int8"},
    {"int8_calibration_table_name", "text", kRefused,
     "int8 needs no calibration table here: use compute=int8 alone"},
    {"int8_use_native_calibration_table", "boolean", kRefused,
     "int8 needs no calibration table here: use compute=int8 alone"},
    {"external_alloc", "address", kRefused,
     "memory comes from ONNX Runtime and from Lathe, not from other allocators"},
    {"external_free", "address", kRefused,
     "memory comes from ONNX Runtime and from Lathe, not from other allocators"},
    {"external_empty_cache", "address", kRefused,
     "memory comes from ONNX Runtime and from Lathe, not from other allocators"},
    {"arena_extend_strategy", "text", kNoEffect,
     "scratch memory is planned once per shape capacity"},
    {"disable_caching", "boolean", kWorks, "1: cache_dir is not used"},
    {"force_recompile", "boolean", kWorks,
     "1: nothing is loaded from files, which are written anew"},
    {"compute_mode", "text", kNoEffect, "all shapes share one plan, chosen by a cost model"},
    {"dump_subgraphs", "boolean", kNoEffect, "use log=5, which prints programs"},
    {"dump_model_ops", "boolean", kNoEffect, "use log=5, which prints programs"},
    {"hip_graph_enable", "boolean", kNoEffect, "launches on the CPU need no capture"},
    {"max_dynamic_batch", "integer", kNoEffect, kSymbolicShapes},
    {"compile_batches", "text", kNoEffect, kSymbolicShapes},
    {"static_pad_seq", "boolean", kNoEffect, kSymbolicShapes},
    {"static_pad_seq_len", "integer", kNoEffect, kSymbolicShapes},
    {"static_pad_inputs", "text", kNoEffect, kSymbolicShapes},
    {"static_pad_outputs", "text", kNoEffect, kSymbolicShapes},
    {"coalesce_io", "boolean", kNoEffect, "inputs and outputs are used where they are"},
    {"mlss_use_specific_ops", "text", kNoEffect, kHostMemory},
    {"cpu_control_flow", "boolean", kNoEffect, "If, Loop and Scan run in the same plan"},
    {"model_arch", "text", kNoEffect, "the graph shows its architecture"},
    // The ROCm EP
    {"gpu_mem_limit", "bytes", kWorks, "means memory_limit"},
    {"gpu_external_alloc", "address", kRefused,
     "memory comes from ONNX Runtime and from Lathe, not from other allocators"},
    {"gpu_external_free", "address", kRefused,
     "memory comes from ONNX Runtime and from Lathe, not from other allocators"},
    {"gpu_external_empty_cache", "address", kRefused,
     "memory comes from ONNX Runtime and from Lathe, not from other allocators"},
    {"has_user_compute_stream", "boolean", kRefused,
     "kernels run on the calling thread and the pool, not on a stream"},
    {"user_compute_stream", "address", kRefused,
     "kernels run on the calling thread and the pool, not on a stream"},
    {"cudnn_conv_algo_search", "text", kRefused,
     "cuDNN is not used: convolutions have kernels of Lathe's own"},
    {"cudnn_conv_use_max_workspace", "boolean", kRefused,
     "cuDNN is not used: convolutions have kernels of Lathe's own"},
    {"cudnn_conv1d_pad_to_nc1d", "boolean", kRefused,
     "cuDNN is not used: convolutions have kernels of Lathe's own"},
    {"miopen_conv_exhaustive_search", "boolean", kRefused,
     "MIOpen is not used: convolutions have kernels of Lathe's own"},
    {"miopen_conv_use_max_workspace", "boolean", kRefused,
     "MIOpen is not used: convolutions have kernels of Lathe's own"},
    {"do_copy_in_default_stream", "boolean", kNoEffect, kHostMemory},
    {"enable_hip_graph", "boolean", kNoEffect, "launches on the CPU need no capture"},
    {"tunable_op_enable", "boolean", kNoEffect, "kernels are chosen by a cost model"},
    {"tunable_op_tuning_enable", "boolean", kNoEffect, "kernels are chosen by a cost model"},
    {"tunable_op_max_tuning_duration_ms", "integer", kNoEffect,
     "kernels are chosen by a cost model"},
});

constexpr std::string_view kDefaultFile = "compiled_model.lathe";
constexpr std::string_view kOldPrefix = "migraphx_";

const EpOption* find_option(std::string_view name) {
  if (name.starts_with(kOldPrefix)) name.remove_prefix(kOldPrefix.size());
  const auto* at = std::ranges::find(kOptions, name, &EpOption::name);
  return at == kOptions.end() ? nullptr : at;
}

// An option as the session states it.
struct Given {
  const EpOption& option;
  std::string_view key;   // as written
  std::string_view text;  // its value

  bool boolean() const {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool yes = lower == "1" || lower == "true";
    check(yes || lower == "0" || lower == "false", ErrorKind::invalid_argument,
          "option '{}' is '{}', expected 0, 1, true or false", escape(key), escape(text));
    return yes;
  }
  // False for a value that leaves the option off.
  bool is_on() const {
    if (option.type == "boolean") return boolean();
    return !text.empty() && !(text == "0" && (option.type == "address" || option.type == "number"));
  }
};

void set_compute(EpOptions& out, const Given& given, Compute compute) {
  if (!given.boolean()) return;
  check(out.compute == Compute::as_model || out.compute == compute, ErrorKind::invalid_argument,
        "option '{}' means compute={}, but another option sets compute={}: keep one of them",
        escape(given.key), to_string(compute), to_string(out.compute));
  out.compute = compute;
  if (given.option.name == "fp16_enable") {
    out.notes.push_back("fp16_enable means compute=bf16: on the CPU, bf16 is the fast 16-bit type");
  }
}

void set_target(EpOptions& out, const Given& given) {
  constexpr auto kTargets = std::to_array<std::string_view>({"auto", "cpu", "ref"});
  check(std::ranges::find(kTargets, given.text) != kTargets.end() || is_gpu_target(given.text),
        ErrorKind::invalid_argument,
        "option '{}' is '{}', expected auto, cpu, ref, gpu, cuda or hip", escape(given.key),
        escape(given.text));
  out.target = given.text;
}

void set_refuse(EpOptions& out, const Given& given) {
  std::string_view rest = given.text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    std::string_view name = rest.substr(0, end);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) out.refuse.emplace(name);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

// The values of the options about compiled files, which come in any order.
struct Files {
  std::string cache_dir;
  std::string save_path{kDefaultFile};
  std::string load_path{kDefaultFile};
  bool save = false;
  bool load = false;
  bool disabled = false;
};

// True if the option is about compiled files.
bool set_file(Files& files, EpOptions& out, const Given& given) {
  const std::string_view name = given.option.name;
  if (name == "cache_dir" || name == "model_cache_dir") {
    files.cache_dir = given.text;
  } else if (name == "save_model_path" || name == "save_compiled_path") {
    if (!given.text.empty()) files.save_path = given.text;
  } else if (name == "load_model_path" || name == "load_compiled_path") {
    if (!given.text.empty()) files.load_path = given.text;
  } else if (name == "save_compiled_model") {
    files.save = given.boolean();
  } else if (name == "load_compiled_model") {
    files.load = given.boolean();
  } else if (name == "disable_caching") {
    files.disabled = given.boolean();
  } else if (name == "force_recompile") {
    out.force_recompile = given.boolean();
  } else {
    return false;
  }
  return true;
}

void set(EpOptions& out, const Given& given) {
  constexpr int kMostThreads = 1024;
  constexpr int kMostLog = 6;
  constexpr int kMostDevices = 1024;
  constexpr double kMostTuning = 86400, kExhaustiveTuning = 60;
  const std::string_view name = given.option.name;
  if (name == "threads") {
    out.threads = static_cast<int>(parse_integer(given.text, 0, kMostThreads, given.key));
  } else if (name == "compute") {
    out.compute = parse_compute(given.text, given.key);
  } else if (name == "target") {
    set_target(out, given);
  } else if (name == "strict") {
    out.strict = given.boolean();
  } else if (name == "memory_limit" || name == "mem_limit" || name == "gpu_mem_limit") {
    // The default of other EPs, the largest size_t, means no limit.
    if (given.text != "18446744073709551615") out.memory_limit = parse_bytes(given.text, given.key);
  } else if (name == "log") {
    out.log = static_cast<int>(parse_integer(given.text, 0, kMostLog, given.key));
  } else if (name == "trace") {
    out.trace = given.text;
  } else if (name == "refuse") {
    set_refuse(out, given);
  } else if (name == "device_id") {
    out.device = static_cast<int>(parse_integer(given.text, 0, kMostDevices, given.key));
  } else if (name == "fp16_enable" || name == "bf16_enable") {
    set_compute(out, given, Compute::bf16);
  } else if (name == "int8_enable") {
    set_compute(out, given, Compute::int8);
  } else if (name == "tune") {
    out.tune = parse_number(given.text, 0, kMostTuning, given.key);
  } else if (name == "exhaustive_tune") {
    if (given.boolean() && out.tune == 0) out.tune = kExhaustiveTuning;
  }
}

}  // namespace

std::span<const EpOption> ep_options() { return kOptions; }

EpOptions read_options(const Entries& entries, std::string_view prefix) {
  EpOptions out;
  Files files;
  for (const auto& [key, value] : entries) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view name = std::string_view(key).substr(prefix.size());
    const EpOption* option = find_option(name);
    if (option == nullptr) {
      std::vector<std::string_view> names;
      for (const EpOption& each : kOptions) names.push_back(each.name);
      fail(ErrorKind::invalid_argument, "unknown option '{}' of Lathe's execution provider{}",
           escape(name), did_you_mean(name, names));
    }
    const Given given{*option, name, value};
    const bool on = given.is_on();
    if (option->use == OptionUse::works) {
      if (!set_file(files, out, given)) set(out, given);
    } else if (option->use == OptionUse::refused && on) {
      fail(ErrorKind::unsupported, "option '{}' is '{}', which is not supported: {}", escape(name),
           escape(value), option->doc);
    } else if (on) {
      out.notes.push_back(fmt::format("option '{}' has no effect: {}", escape(name), option->doc));
    }
  }
  if (out.device > 0) {
    check(is_gpu_target(out.target) && out.target.find(':') == std::string::npos,
          ErrorKind::invalid_argument,
          "option 'device_id' is {}, expected 0: the target '{}' is one device", out.device,
          escape(out.target));
    out.target += fmt::format(":{}", out.device);
  }
  if (!files.disabled) out.cache_dir = files.cache_dir;
  if (files.save) out.save_path = files.save_path;
  if (files.load) out.load_path = files.load_path;
  return out;
}

std::string options_markdown() {
  std::string out = "| option | type | here |\n|---|---|---|\n";
  for (const EpOption& option : kOptions) {
    const std::string_view use = option.use == OptionUse::works       ? ""
                                 : option.use == OptionUse::no_effect ? "no effect: "
                                                                      : "refused: ";
    out += fmt::format("| `{}` | {} | {}{} |\n", option.name, option.type, use, option.doc);
  }
  return out;
}

}  // namespace lathe::ort_plugin
