// SPDX-License-Identifier: MIT
#include "llm/tokenizer/load.h"

#include "base/error.h"
#include "base/file_map.h"
#include "base/lfs_pointer.h"

namespace lathe::tokenizer {
namespace {

std::string_view base_name(std::string_view path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Opens a file; an empty one if it does not exist.
MemoryFile open_beside(const Folder& folder, std::string_view name) {
  return folder.has(name) ? folder.open(name) : MemoryFile();
}

// Runs `read` and adds the file's name to its errors.
template <class F>
auto named(const std::string& file, F&& read) {
  try {
    return read();
  } catch (Error& error) {
    error.note(fmt::format("in {}", escape(file)));
    throw;
  }
}

TokenizerConfig read_config(const Folder& folder) {
  const MemoryFile config = open_beside(folder, "tokenizer_config.json");
  const MemoryFile specials = open_beside(folder, "special_tokens_map.json");
  const MemoryFile added = open_beside(folder, "added_tokens.json");
  return named(folder.place(),
               [&] { return read_tokenizer_config(config.text, specials.text, added.text); });
}

// True if the first line is base64, a space and a number.
bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min<size_t>(bytes.find('\n'), 4096));
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 >= line.size()) return false;
  const std::string_view rank = line.substr(space + 1);
  return rank.find_first_not_of("0123456789\r") == std::string_view::npos;
}

// `name` decides the format where the content does not; `path` is for messages.
Parts read_file(std::string_view bytes, std::string_view name, const std::string& path,
                const Folder& beside, const LoadOptions& options) {
  if (bytes.starts_with("GGUF")) {
    return named(path, [&] { return read_gguf(bytes, path); });
  }
  if (name.ends_with(".txt")) {
    const TokenizerConfig config = read_config(beside);
    return named(path, [&] { return read_vocab_text(bytes, config); });
  }
  if (name.ends_with("vocab.json")) {
    check(beside.has("merges.txt"), ErrorKind::io, "'{}' is missing: '{}' requires it beside it",
          escape(beside.place("merges.txt")), escape(path));
    const MemoryFile merges = beside.open("merges.txt");
    const TokenizerConfig config = read_config(beside);
    return named(path + " with merges.txt",
                 [&] { return read_vocab_and_merges(bytes, merges.text, config); });
  }
  return named(path, [&] {
    const size_t first = bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (!name.ends_with(".model") && first != std::string_view::npos && bytes[first] == '{') {
      return read_tokenizer_json(bytes);
    }
    if (is_tiktoken(bytes)) return read_tiktoken(bytes, std::string(name), options);
    return read_sentence_piece(bytes);
  });
}

// The name of a folder's main tokenizer file, or "".
std::string find_file(const Folder& folder) {
  const std::vector<std::string> names = folder.names();
  for (const char* suffix :
       {"tokenizer.json", ".model", ".tiktoken", "vocab.json", "vocab.txt", ".gguf"}) {
    for (const std::string& name : names) {
      if (name.ends_with(suffix)) return name;
    }
  }
  return {};
}

}  // namespace

bool has_tokenizer(const Folder& folder) {
  const std::string name = find_file(folder);
  return !name.empty() && (!name.ends_with(".gguf") || has_vocabulary(folder.open(name).text));
}

std::shared_ptr<const Tokenizer> load_tokenizer(const Folder& folder, const LoadOptions& options) {
  const std::string name = find_file(folder);
  check(!name.empty(), ErrorKind::invalid_argument,
        "the folder '{}' has no tokenizer.json, no .model, .tiktoken or .gguf file, no vocab.json "
        "and no vocab.txt",
        escape(folder.place()));
  const MemoryFile file = folder.open(name);
  Parts parts = read_file(file.text, name, folder.place(name), folder, options);
  parts.origin = folder.place(name);
  for (auto& [token, text] : read_config(folder).special_tokens) {
    parts.special_tokens[token] = std::move(text);
  }
  return std::make_shared<const Tokenizer>(std::move(parts));
}

std::future<std::shared_ptr<const Tokenizer>> start_loading_tokenizer(const Folder& folder) {
  // Without a free thread, the caller loads it when it needs it.
  return std::async(std::launch::async | std::launch::deferred,
                    [folder] { return has_tokenizer(folder) ? load_tokenizer(folder) : nullptr; });
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path,
                                                const LoadOptions& options) {
  if (is_folder(path)) return load_tokenizer(Folder(path), options);
  const auto map = FileMap::open(path);
  return load_tokenizer_bytes(map->text(), path, options);
}

std::shared_ptr<const Tokenizer> load_tokenizer_bytes(std::string_view bytes,
                                                      const std::string& name,
                                                      const LoadOptions& options) {
  check_fetched(bytes, name);
  Parts parts = read_file(bytes, base_name(name), name, Folder(parent_folder(name)), options);
  parts.origin = name;
  return std::make_shared<const Tokenizer>(std::move(parts));
}

}  // namespace lathe::tokenizer
