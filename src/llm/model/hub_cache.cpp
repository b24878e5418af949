// SPDX-License-Identifier: MIT
#include "llm/model/hub_cache.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_map.h"
#include "base/os_environment.h"

namespace lathe::llm {
namespace {

constexpr size_t kMaxReference = 256;  // bytes of a file that names a revision

struct HubName {
  std::string organisation, name;
  std::string part;  // after the colon: a file or a type; empty: the whole repository
};

bool is_word(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

// One file, or a file in a subfolder.
bool is_part(std::string_view text) {
  const size_t slash = text.find('/');
  return slash == std::string_view::npos
             ? is_word(text)
             : is_word(text.substr(0, slash)) && is_word(text.substr(slash + 1));
}

std::optional<HubName> parse(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const size_t colon = text.find(':', slash);
  const bool has_part = colon != std::string_view::npos;
  HubName out{std::string(text.substr(0, slash)),
              std::string(text.substr(slash + 1, has_part ? colon - slash - 1 : colon)),
              std::string(has_part ? text.substr(colon + 1) : "")};
  const bool valid =
      is_word(out.organisation) && is_word(out.name) && (!has_part || is_part(out.part));
  return valid ? std::optional(out) : std::nullopt;
}

std::string cache_folder() {
  const auto set = [](const char* name) { return environment_variable(name).value_or(""); };
  if (const std::string cache = set("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = set("HF_HOME"); !home.empty()) return join_path(home, "hub");
  std::string cache = set("XDG_CACHE_HOME");
  if (cache.empty()) cache = join_path(set("HOME"), ".cache");
  return join_path(cache, "huggingface/hub");
}

// The folder of the revision "main", or of the only one.
std::string snapshot_of(const std::string& repository, const std::string& name) {
  const std::string reference = join_path(repository, "refs/main");
  const std::string snapshots = join_path(repository, "snapshots");
  if (file_exists(reference) && !is_folder(reference)) {
    const auto file = FileMap::open(reference);
    std::string revision(file->text().substr(0, kMaxReference));
    while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back())) != 0) {
      revision.pop_back();
    }
    if (is_word(revision) && is_folder(join_path(snapshots, revision))) {
      return join_path(snapshots, revision);
    }
  }
  const std::vector<std::string> found =
      is_folder(snapshots) ? list_folder(snapshots) : std::vector<std::string>();
  check(found.size() == 1, ErrorKind::io,
        "the cache entry '{}' of '{}' has {} revisions and no revision 'main' among them: open one "
        "of them by its path",
        escape(repository), escape(name), found.size());
  return join_path(snapshots, found.front());
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "NAME-00002-of-00003.gguf": a part that the first part opens.
bool is_later_part(std::string_view name) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (name.size() < kTail.size()) return false;
  const std::string_view tail = name.substr(name.size() - kTail.size());
  return tail.starts_with('-') && tail.substr(6, 4) == "-of-" && tail.substr(1, 5) != "00001";
}

// Whether the file's name has the type as a whole word: "Q4_K" is not in "x-Q4_K_M.gguf".
bool names_type(std::string_view file, std::string_view type) {
  for (size_t at = file.find(type); at != std::string_view::npos; at = file.find(type, at + 1)) {
    const size_t end = at + type.size();
    const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(file[at - 1])) == 0;
    if (begins && (file[end] == '-' || file[end] == '.')) return true;
  }
  return false;
}

// Language models among the GGUF files of a folder and of its subfolders, split ones by their first
// part; only those of `type`, unless it is empty.
std::vector<std::string> gguf_files(const std::string& folder, std::string_view type) {
  std::vector<std::string> all;
  for (const std::string& name : list_folder(folder)) {
    all.push_back(name);
    if (!is_folder(join_path(folder, name))) continue;
    for (const std::string& inner : list_folder(join_path(folder, name))) {
      all.push_back(join_path(name, inner));
    }
  }
  std::erase_if(all, [&](const std::string& path) {
    const std::string name = lower(path.substr(path.find('/') + 1));
    return !name.ends_with(".gguf") || is_later_part(name) || name.starts_with("mmproj") ||
           !(type.empty() || names_type(name, lower(type)));
  });
  return all;
}

// Names the entries that are near.
[[noreturn]] void fail_without(const std::string& name, const std::string& cache) {
  constexpr std::string_view kPrefix = "models--";
  std::vector<std::string> names;
  if (is_folder(cache)) names = list_folder(cache);
  std::erase_if(names, [&](const std::string& one) { return !one.starts_with(kPrefix); });
  for (std::string& one : names) {
    one.erase(0, kPrefix.size());
    const size_t dashes = one.find("--");
    if (dashes != std::string::npos) one.replace(dashes, 2, "/");
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  fail(ErrorKind::io, "'{}' is neither a path nor in the Hugging Face cache '{}'{}", escape(name),
       escape(cache), did_you_mean(name.substr(0, name.find(':')), known));
}

bool has_model(const std::string& folder) {
  if (file_exists(join_path(folder, "genai_config.json"))) return true;
  return file_exists(join_path(folder, "config.json")) && gguf_files(folder, "").empty();
}

}  // namespace

std::string resolve_model(const std::string& name) {
  const std::optional<HubName> wanted = file_exists(name) ? std::nullopt : parse(name);
  // A path into a folder that exists is a path.
  if (!wanted || is_folder(wanted->organisation)) return name;
  const std::string cache = cache_folder();
  const std::string repository =
      join_path(cache, fmt::format("models--{}--{}", wanted->organisation, wanted->name));
  if (!is_folder(repository)) fail_without(name, cache);
  const std::string folder = snapshot_of(repository, name);
  if (wanted->part.empty() && has_model(folder)) return folder;
  if (!wanted->part.empty() && file_exists(join_path(folder, wanted->part))) {
    return join_path(folder, wanted->part);
  }
  const std::vector<std::string> found = gguf_files(folder, wanted->part);
  if (found.size() == 1) return join_path(folder, found.front());
  const std::string type =
      wanted->part.empty() ? "" : fmt::format(" of type '{}'", escape(wanted->part));
  fail(ErrorKind::io, "'{}' has {} GGUF files{} in the cache, expected one; it has: {}",
       escape(name), found.size(), type,
       escape(fmt::format("{}", fmt::join(list_folder(folder), ", ")), 400));
}

}  // namespace lathe::llm
