// SPDX-License-Identifier: MIT
#include "llm/tokenizer/load.h"

#include "base/error.h"
#include "base/file_map.h"

namespace lathe::tokenizer {
namespace {

std::string_view base_name(std::string_view path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The text of a file beside others, or nothing.
std::shared_ptr<const FileMap> open_beside(const std::string& folder, std::string_view name) {
  const std::string path = join_path(folder, name);
  return file_exists(path) ? FileMap::open(path) : nullptr;
}
std::string_view text_of(const std::shared_ptr<const FileMap>& file) {
  return file == nullptr ? std::string_view() : file->text();
}

TokenizerConfig read_config(const std::string& folder) {
  const auto config = open_beside(folder, "tokenizer_config.json");
  const auto specials = open_beside(folder, "special_tokens_map.json");
  const auto added = open_beside(folder, "added_tokens.json");
  return read_tokenizer_config(text_of(config), text_of(specials), text_of(added));
}

// A line of tiktoken: base64, a space, a number.
bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min<size_t>(bytes.find('\n'), 4096));
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 >= line.size()) return false;
  const std::string_view rank = line.substr(space + 1);
  return rank.find_first_not_of("0123456789\r") == std::string_view::npos;
}

Parts read_file(std::string_view bytes, const std::string& path, const LoadOptions& options) {
  const std::string_view name = base_name(path);
  if (bytes.starts_with("GGUF")) return read_gguf(bytes);
  if (name.ends_with(".txt")) return read_vocab_text(bytes, read_config(parent_folder(path)));
  if (name.ends_with("vocab.json")) {
    const auto merges = open_beside(parent_folder(path), "merges.txt");
    check(merges != nullptr, ErrorKind::invalid_argument, "'{}' needs a merges.txt beside it",
          escape(path));
    return read_vocab_and_merges(bytes, merges->text(), read_config(parent_folder(path)));
  }
  const size_t first = bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (!name.ends_with(".model") && first != std::string_view::npos && bytes[first] == '{') {
    return read_tokenizer_json(bytes);
  }
  if (is_tiktoken(bytes)) return read_tiktoken(bytes, std::string(name), options);
  return read_sentence_piece(bytes);
}

// The file that a folder's tokenizer begins with; empty if there is none.
std::string find_file(const std::string& folder) {
  if (!is_folder(folder)) return {};
  const std::vector<std::string> names = list_folder(folder);
  for (const char* suffix :
       {"tokenizer.json", ".model", ".tiktoken", "vocab.json", "vocab.txt", ".gguf"}) {
    for (const std::string& name : names) {
      if (name.ends_with(suffix)) return join_path(folder, name);
    }
  }
  return {};
}

}  // namespace

bool has_tokenizer(const std::string& folder) { return !find_file(folder).empty(); }

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path,
                                                const LoadOptions& options) {
  const bool folder = is_folder(path);
  const std::string file = folder ? find_file(path) : path;
  check(!file.empty(), ErrorKind::invalid_argument,
        "the folder '{}' has no tokenizer.json, no .model, .tiktoken or .gguf file, no vocab.json "
        "and no vocab.txt",
        escape(path));
  const auto map = FileMap::open(file);
  try {
    Parts parts = read_file(map->text(), file, options);
    if (folder) {
      for (auto& [name, text] : read_config(path).special_tokens) {
        parts.special_tokens[name] = std::move(text);
      }
    }
    return std::make_shared<const Tokenizer>(std::move(parts));
  } catch (Error& error) {
    error.note(fmt::format("in {}", escape(file)));
    throw;
  }
}

std::shared_ptr<const Tokenizer> load_tokenizer_bytes(std::string_view bytes,
                                                      const std::string& name,
                                                      const LoadOptions& options) {
  return std::make_shared<const Tokenizer>(read_file(bytes, name, options));
}

}  // namespace lathe::tokenizer
