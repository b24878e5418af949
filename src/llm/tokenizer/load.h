// SPDX-License-Identifier: MIT
// Loads tokenizers from files.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/folder.h"
#include "llm/tokenizer/tokenizer.h"

namespace lathe::tokenizer {

struct LoadOptions {
  // The pattern that splits the text, for tiktoken files of an unknown encoding.
  std::string pattern;
};

// Loads a folder (tokenizer.json; else a SentencePiece model, tiktoken ranks, vocab.json with
// merges.txt, or vocab.txt, with tokenizer_config.json and special_tokens_map.json), one such file,
// or a GGUF file. Content and name decide the format. Io for a missing file, InvalidModel for a
// damaged one.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path,
                                                const LoadOptions& options = {});
std::shared_ptr<const Tokenizer> load_tokenizer(const Folder& folder,
                                                const LoadOptions& options = {});
// False for a GGUF file without a vocabulary, too.
bool has_tokenizer(const Folder& folder);
// Loads it while the caller goes on; null if the folder has none.
std::future<std::shared_ptr<const Tokenizer>> start_loading_tokenizer(const Folder& folder);
// Loads the bytes of one of these files. `name` is for messages and helps to detect the format.
std::shared_ptr<const Tokenizer> load_tokenizer_bytes(std::string_view bytes,
                                                      const std::string& name,
                                                      const LoadOptions& options = {});

// ---- file formats ----
Parts read_tokenizer_json(std::string_view bytes);
Parts read_sentence_piece(std::string_view bytes);
Parts read_tiktoken(std::string_view bytes, const std::string& name, const LoadOptions& options);
Parts read_gguf(std::string_view bytes, const std::string& path);
bool has_vocabulary(std::string_view gguf);

// The content of tokenizer_config.json and special_tokens_map.json; either may be empty.
struct TokenizerConfig {
  std::map<std::string, std::string> special_tokens;  // bos_token, …
  std::vector<AddedToken> added_tokens;               // in the order of their ids
  std::string tokenizer_class;                        // without "Fast" at its end
  std::optional<bool> add_bos_token, add_eos_token, add_prefix_space, do_lower_case, strip_accents,
      tokenize_chinese_chars;
};
TokenizerConfig read_tokenizer_config(std::string_view config, std::string_view special_tokens_map,
                                      std::string_view added_tokens = {});
Parts read_vocab_and_merges(std::string_view vocab, std::string_view merges,
                            const TokenizerConfig& config);
Parts read_vocab_text(std::string_view vocab, const TokenizerConfig& config);

}  // namespace lathe::tokenizer
