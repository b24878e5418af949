// SPDX-License-Identifier: MIT
#include "ort_plugin/group_store.h"

#include <filesystem>

#include "base/error.h"
#include "base/file_map.h"
#include "base/os_private_folder.h"
#include "ort_plugin/context.h"
#include "ort_plugin/model_digest.h"

namespace lathe::ort_plugin {

GroupStore::GroupStore(const EpOptions& options, const Log& log) : options_(options), log_(log) {
  if (options.cache_dir.empty()) return;
  std::error_code problem;
  if (!file_exists(options.cache_dir)) {
    PrivateFolder made(options.cache_dir);  // of the owner alone
    if (!made.usable()) std::filesystem::create_directories(options.cache_dir, problem);
  }
  check(is_folder(options.cache_dir), ErrorKind::io,
        "option 'cache_dir' is '{}', which is not a folder and cannot be made: {}",
        escape(options.cache_dir), problem ? problem.message() : "a file has that name");
  if (PrivateFolder(options.cache_dir).usable()) {
    cache_ = options.cache_dir;
  } else {
    log_.warn(fmt::format(
        "option 'cache_dir' has no effect: '{}' is a link, or others own or can write it",
        escape(options.cache_dir)));
  }
}

bool GroupStore::is_used() const {
  return !cache_.empty() || !options_.load_path.empty() || !options_.save_path.empty();
}

void GroupStore::begin(const onnx::Model& model, const std::vector<size_t>& inputs,
                       const std::vector<size_t>& outputs, const CompileOptions& options) {
  ++count_;
  digest_ = model_digest(
      model,
      fmt::format("{}; {}; inputs {}; outputs {}{}", compatibility(options),
                  to_string(options.compute), fmt::join(inputs, " "), fmt::join(outputs, " "),
                  options.boundary == lathe::Boundary::device ? "; in its memory" : ""));
}

std::string GroupStore::cached() const { return join_path(cache_, digest_ + ".lathe"); }

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
  if (cache_.empty() || !file_exists(cached())) return std::nullopt;
  try {
    return open(cached(), node, options);
  } catch (const Error& error) {
    log_.warn(fmt::format("a group is compiled and written anew: {}", error.message()));
    return std::nullopt;
  }
}

void GroupStore::write(const GroupPlan& group, const std::string& path) const {
  FileWriter file(path);
  save_group(group, digest_, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

void GroupStore::save(const GroupPlan& group) const {
  if (!options_.save_path.empty()) write(group, numbered(options_.save_path));
}

void GroupStore::keep(const GroupPlan& group) const {
  if (cache_.empty()) return;
  try {
    write(group, cached());
  } catch (const Error& error) {
    log_.warn(fmt::format("a group is not kept in 'cache_dir': {}", error.message()));
  }
}

}  // namespace lathe::ort_plugin
