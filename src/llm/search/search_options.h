// SPDX-License-Identifier: MIT
// Search options, with the names of ONNX Runtime GenAI and Transformers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe::search {

using Token = int32_t;

// A bias on a token after others, e.g. {{7, 9}, -3}: 9 after a 7 becomes less likely.
struct SequenceBias {
  std::vector<Token> tokens;
  float bias = 0;
};

enum class EarlyStopping : uint8_t { no, yes, never };

// Defaults change no logits; 0 disables a limit.
struct SearchOptions {
  bool do_sample = false;
  int64_t min_length = 0;  // tokens with the prompt
  int64_t max_length = 0;  // 0: the model's context length
  int64_t min_new_tokens = 0;
  int64_t max_new_tokens = 0;
  int64_t num_beams = 1;
  int64_t num_return_sequences = 1;
  int64_t log_probabilities = 0;  // number of most likely tokens reported with each token; 0: none
  EarlyStopping early_stopping = EarlyStopping::yes;
  double length_penalty = 1;
  bool length_penalty_counts_prompt = true;  // as ONNX Runtime GenAI; Transformers: new tokens only
  double temperature = 1;                    // 0: greedy
  int64_t top_k = 50;
  double top_p = 0;  // in [0, 1]; 0 and 1 keep all
  double min_p = 0;
  double typical_p = 1;
  double epsilon_cutoff = 0;
  double eta_cutoff = 0;
  double repetition_penalty = 1;
  double presence_penalty = 0;   // of tokens generated so far
  double frequency_penalty = 0;  // times the count
  int64_t no_repeat_ngram_size = 0;
  std::vector<std::vector<Token>> bad_words_ids{};
  std::vector<Token> suppress_tokens{};
  std::vector<Token> begin_suppress_tokens{};  // as the first new token
  std::optional<Token> forced_bos_token_id{};  // as the second token of a sequence
  std::vector<Token> forced_eos_token_id{};    // as the last token within max_length
  // From `first` new tokens on, end tokens gain |logit| · (second^n - 1) after n more tokens.
  std::optional<std::pair<int64_t, double>> exponential_decay_length_penalty{};
  std::vector<SequenceBias> sequence_bias{};
  std::vector<std::pair<Token, float>> logit_bias{};
  int64_t random_seed = -1;  // -1: random
  std::vector<std::string> stop_strings{};
  int64_t chunk_size = 0;  // prompt tokens per prefill run; 0: automatic

  // Below, logits divided by the temperature leave f32.
  static constexpr double kLeastTemperature = 1e-30;
  // Whether the largest logit decides.
  bool greedy() const { return !do_sample || temperature < kLeastTemperature || top_k == 1; }
};

struct SearchOptionInfo {
  std::string_view name;
  std::string_view doc;
  bool has_value = true;  // false: accepted for GenAI without effect
};

// All options, sorted by name.
std::span<const SearchOptionInfo> search_options();

// Sets an option from JSON; '-' and '_' are equal. InvalidArgument for an unknown name (with the
// nearest one), a wrong type, or a value out of range.
void set_search_option(SearchOptions& options, std::string_view name, const nlohmann::json& value);
// Sets an option from a command-line string: JSON if it parses, else a string.
void set_search_option(SearchOptions& options, std::string_view name, std::string_view text);
// Sets an object of options, e.g. the "search" of a genai_config.json.
void set_search_options(SearchOptions& options, const nlohmann::json& object);
// All options by name, as set_search_options() reads them.
nlohmann::json search_options_json(const SearchOptions& options);
// Checks combinations of options, such as more sequences returned than beams.
void check_search_options(const SearchOptions& options, int64_t vocabulary);

}  // namespace lathe::search
