// SPDX-License-Identifier: MIT
#include "ort_plugin/group_store.h"

#include <filesystem>

#include "base/file_map.h"
#include "ort_plugin/context.h"
#include "ort_plugin/model_digest.h"

namespace lathe::ort_plugin {

GroupStore::GroupStore(const EpOptions& options, const Log& log) : options_(options), log_(log) {
  if (options.cache_dir.empty()) return;
  std::error_code problem;
  std::filesystem::create_directories(options.cache_dir, problem);
  check(is_folder(options.cache_dir), ErrorKind::io,
        "option 'cache_dir' is '{}', which is not a folder and cannot be made: {}",
        escape(options.cache_dir), problem ? problem.message() : "a file has that name");
}

bool GroupStore::is_used() const {
  return !options_.cache_dir.empty() || !options_.load_path.empty() || !options_.save_path.empty();
}

void GroupStore::begin(const onnx::Model& model, const std::vector<size_t>& inputs,
                       const std::vector<size_t>& outputs, const CompileOptions& options) {
  ++count_;
  digest_ = model_digest(model, fmt::format("{}; {}; inputs {}; outputs {}", compatibility(options),
                                            to_string(options.compute), fmt::join(inputs, " "),
                                            fmt::join(outputs, " ")));
}

std::string GroupStore::cached() const { return join_path(options_.cache_dir, digest_ + ".lathe"); }

// "a/model.lathe" for the first group, "a/model_2.lathe" for the second.
std::string GroupStore::numbered(const std::string& path) const {
  if (count_ == 1) return path;
  const std::filesystem::path whole(path);
  const std::string name =
      fmt::format("{}_{}{}", whole.stem().string(), count_, whole.extension().string());
  return (whole.parent_path() / name).string();
}

std::optional<GroupPlan> GroupStore::open(const std::string& path, const Boundary& node,
                                          const CompileOptions& options) const {
  const std::shared_ptr<const CompiledFile> file = CompiledFile::open(path);
  check(
      digest_of(*file) == digest_, ErrorKind::invalid_model,
      "'{}' was compiled from another model, with other options, by another version or on another "
      "processor",
      escape(path));
  return load_group(*file, node, options);
}

std::optional<GroupPlan> GroupStore::load(const Boundary& node,
                                          const CompileOptions& options) const {
  if (options_.force_recompile) return std::nullopt;
  if (!options_.load_path.empty()) {
    const std::string path = numbered(options_.load_path);
    try {
      return open(path, node, options);
    } catch (const Error& error) {
      if (options_.strict) throw;
      log_.warn(fmt::format("a group is compiled, as no file has it: {}", error.message()));
    }
  }
  if (options_.cache_dir.empty() || !file_exists(cached())) return std::nullopt;
  try {
    return open(cached(), node, options);
  } catch (const Error& error) {
    log_.warn(fmt::format("a group is compiled and written anew: {}", error.message()));
    return std::nullopt;
  }
}

void GroupStore::save(const GroupPlan& group) const {
  const auto write = [&](const std::string& path) {
    FileWriter file(path);
    save_group(group, digest_, [&](std::string_view bytes) { file.write(bytes); });
    file.commit();
  };
  if (!options_.save_path.empty()) write(numbered(options_.save_path));
  if (!options_.cache_dir.empty()) write(cached());
}

}  // namespace lathe::ort_plugin
