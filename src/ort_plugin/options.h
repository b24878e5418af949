// SPDX-License-Identifier: MIT
// The options of an execution provider: Lathe's own, and those that EPs of MIGraphX and ROCm have.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/set_compute_type.h"

namespace lathe::ort_plugin {

struct EpOptions {
  int threads = 0;  // 0: one per available core
  Compute compute = Compute::as_model;
  std::string target = "auto";
  int device = 0;              // of a GPU target
  bool device_memory = false;  // the host's values lie in a GPU's memory
  bool strict = false;
  int64_t memory_limit = 0;  // bytes; 0: none
  int log = 0;
  std::string trace;                          // a file; "": none
  std::set<std::string, std::less<>> refuse;  // operators
  // Files of compiled groups (group_store.h); "": none.
  std::string cache_dir;
  std::string load_path;
  std::string save_path;
  bool force_recompile = false;
  double tune = 0;                 // seconds of measuring a group; 0: none
  std::vector<std::string> notes;  // what options mean here, for the log
};

// What becomes of an option.
enum class OptionUse : uint8_t { works, no_effect, refused };

struct EpOption {
  std::string_view name;  // without a prefix "migraphx_"
  std::string_view type;  // "boolean", "integer", "text", …
  OptionUse use;
  std::string_view doc;  // its meaning, why it has no effect, or why it is refused
};

std::span<const EpOption> ep_options();

using Entries = std::vector<std::pair<std::string, std::string>>;
// Reads the entries of a session's configuration that begin with `prefix` ("ep.lathe.").
// InvalidArgument for an unknown name or value, Unsupported for a refused option in use.
EpOptions read_options(const Entries& entries, std::string_view prefix);

// The rows as a table of docs/onnxruntime-plugin.md.
std::string options_markdown();

}  // namespace lathe::ort_plugin
