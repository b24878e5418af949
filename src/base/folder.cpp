// SPDX-License-Identifier: MIT
#include "base/folder.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file_map.h"
#include "base/lfs_pointer.h"

namespace lathe {

std::string plain_name(std::string_view name) {
  std::string plain = std::filesystem::path(name).lexically_normal().string();
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
}

MemoryFiles files_below(const MemoryFiles& files, std::string_view folder) {
  const std::string own = plain_name(folder);
  const std::string prefix = own.empty() || own == "." ? "" : own + "/";
  MemoryFiles below;
  for (const auto& [name, file] : files) {
    const std::string plain = plain_name(name);
    if (plain.starts_with(prefix)) below[plain.substr(prefix.size())] = file;
  }
  return below;
}

Folder::Folder(std::string path, const MemoryFiles& files)
    : path_(std::move(path)), files_(files_below(files, ".")) {}

std::string Folder::place(std::string_view name) const {
  return path_.empty() || files_.contains(plain_name(name)) ? std::string(name)
                                                            : join_path(path_, name);
}

bool Folder::has(std::string_view name) const {
  return files_.contains(plain_name(name)) ||
         (!path_.empty() && file_exists(join_path(path_, name)));
}

MemoryFile Folder::open(std::string_view name) const {
  if (const auto at = files_.find(plain_name(name)); at != files_.end()) {
    check_fetched(at->second.text, name);
    return at->second;
  }
  check(!path_.empty(), ErrorKind::io, "file '{}' is not among the {} files in memory",
        escape(name), files_.size());
  const auto map = FileMap::open(join_path(path_, name));
  return {map->text(), map};
}

bool may_link_to(const std::string& target, const std::string& folder) {
  if (is_within(target, folder)) return true;
  // hub/models--a--b/snapshots/REVISION/… contains links to hub/models--a--b/blobs/HASH.
  constexpr std::string_view kSnapshots = "/snapshots/";
  const size_t at = folder.rfind(kSnapshots);
  return at != std::string::npos && at + kSnapshots.size() < folder.size() &&
         parent_folder(target) == folder.substr(0, at) + "/blobs";
}

MemoryFile Folder::open_inside(std::string_view name) const {
  if (!path_.empty() && !files_.contains(plain_name(name))) {
    const std::string own = real_path(path_);
    const std::string target = real_path(join_path(path_, name));
    check(may_link_to(target, own), ErrorKind::invalid_model,
          "'{}' is a link to '{}', outside the model's folder '{}'", escape(name), escape(target),
          escape(own));
  }
  return open(name);
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> all;
  if (!path_.empty() && is_folder(path_)) all = list_folder(path_);
  for (const auto& [name, file] : files_) all.push_back(name.substr(0, name.find('/')));
  std::ranges::sort(all);
  const auto twice = std::ranges::unique(all);
  all.erase(twice.begin(), twice.end());
  return all;
}

Folder Folder::below(std::string_view name) const {
  return Folder(path_.empty() ? "" : join_path(path_, name), files_below(files_, name));
}

}  // namespace lathe
