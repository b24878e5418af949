// SPDX-License-Identifier: MIT
#include "llm/search/search_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lathe::search {
namespace {

using Json = nlohmann::json;

[[noreturn]] void wrong(std::string_view name, const Json& value, std::string_view expected) {
  fail(ErrorKind::invalid_argument, "search option '{}' is {}, expected {}", name,
       escape(value.dump(-1, ' ', false, Json::error_handler_t::replace)), expected);
}

struct Integer {
  int64_t least;
  int64_t most = std::numeric_limits<int64_t>::max();
};
struct Number {
  double least;
  double most = std::numeric_limits<double>::infinity();
  bool open = false;  // excludes `least`
};

int64_t read_integer(std::string_view name, const Json& value, Integer range) {
  const bool integral = value.is_number_integer() &&
                        (!value.is_number_unsigned() ||
                         value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!integral || value.get<int64_t>() < range.least || value.get<int64_t>() > range.most) {
    wrong(name, value,
          range.most == std::numeric_limits<int64_t>::max()
              ? fmt::format("an integer from {} on", range.least)
              : fmt::format("an integer in [{}, {}]", range.least, range.most));
  }
  return value.get<int64_t>();
}

double read_number(std::string_view name, const Json& value, Number range) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  const bool low = range.open ? number > range.least : number >= range.least;
  if (!low || !(number <= range.most) || !std::isfinite(number)) {
    wrong(name, value,
          fmt::format("a number {} {}{}", range.open ? "above" : "from", range.least,
                      std::isfinite(range.most) ? fmt::format(" to {}", range.most) : " on"));
  }
  return number;
}

Token read_token(std::string_view name, const Json& value) {
  return static_cast<Token>(read_integer(name, value, {0, std::numeric_limits<Token>::max()}));
}

// A token or a list of them.
std::vector<Token> read_tokens(std::string_view name, const Json& value) {
  if (value.is_null()) return {};
  if (!value.is_array()) return {read_token(name, value)};
  std::vector<Token> tokens;
  for (const Json& token : value) tokens.push_back(read_token(name, token));
  return tokens;
}

std::vector<std::vector<Token>> read_words(std::string_view name, const Json& value) {
  if (!value.is_array()) wrong(name, value, "a list of lists of tokens");
  std::vector<std::vector<Token>> words;
  for (const Json& word : value) {
    words.push_back(read_tokens(name, word));
    if (words.back().empty()) wrong(name, value, "lists of at least one token");
  }
  return words;
}

// [[[7, 9], -3], …]
std::vector<SequenceBias> read_sequence_bias(std::string_view name, const Json& value) {
  if (!value.is_array()) wrong(name, value, "a list of [tokens, bias]");
  std::vector<SequenceBias> list;
  for (const Json& entry : value) {
    if (!entry.is_array() || entry.size() != 2) wrong(name, value, "a list of [tokens, bias]");
    list.push_back({read_tokens(name, entry[0]),
                    static_cast<float>(read_number(name, entry[1], {-1e30, 1e30}))});
    if (list.back().tokens.empty()) wrong(name, value, "at least one token in each entry");
  }
  return list;
}

// {"7": -3, …}, as in OpenAI's API.
std::vector<std::pair<Token, float>> read_logit_bias(std::string_view name, const Json& value) {
  if (!value.is_object()) wrong(name, value, "an object from tokens to biases");
  std::vector<std::pair<Token, float>> list;
  for (const auto& [key, bias] : value.items()) {
    const Json token = Json::parse(key, nullptr, false);
    list.emplace_back(read_token(name, token.is_discarded() ? Json(key) : token),
                      static_cast<float>(read_number(name, bias, {-1e30, 1e30})));
  }
  return list;
}

std::vector<std::string> read_texts(std::string_view name, const Json& value) {
  const Json list = value.is_string() ? Json::array({value}) : value;
  if (!list.is_array()) wrong(name, value, "a string or a list of strings");
  std::vector<std::string> texts;
  for (const Json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
      wrong(name, value, "strings that are not empty");
    }
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

EarlyStopping read_early_stopping(std::string_view name, const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? EarlyStopping::yes : EarlyStopping::no;
  if (value == "never") return EarlyStopping::never;
  wrong(name, value, "true, false or \"never\"");
}

bool read_boolean(std::string_view name, const Json& value) {
  if (!value.is_boolean()) wrong(name, value, "true or false");
  return value.get<bool>();
}

using Set = void (*)(SearchOptions& o, std::string_view name, const Json& value);
struct Entry {
  SearchOptionInfo info;
  Set set;
};

template <auto Member, int64_t Least, int64_t Most = std::numeric_limits<int64_t>::max()>
constexpr Set integer = [](SearchOptions& o, std::string_view n, const Json& v) {
  o.*Member = read_integer(n, v, {Least, Most});
};
template <auto Member>
constexpr Set share = [](SearchOptions& o, std::string_view n, const Json& v) {
  o.*Member = read_number(n, v, {0, 1});
};
template <auto Member>
constexpr Set tokens =
    [](SearchOptions& o, std::string_view n, const Json& v) { o.*Member = read_tokens(n, v); };

// Options of ONNX Runtime GenAI that must be 0.
constexpr std::string_view kNoGroups = "grouped beams are";
constexpr std::string_view kNoTransducers = "speech transducers are";
template <const std::string_view& What>
constexpr Set refused = [](SearchOptions&, std::string_view n, const Json& v) {
  check(read_number(n, v, {-1e30, 1e30}) == 0, ErrorKind::unsupported,
        "search option '{}' is {}: {} not supported", n, v.dump(), What);
};

using O = SearchOptions;
constexpr auto kEntries = std::to_array<Entry>({
    // clang-format off
    {{"bad_words_ids", "Lists of tokens that must not appear."}, [](O& o, std::string_view n, const Json& v) { o.bad_words_ids = read_words(n, v); }},
    {{"batch_size", "No effect: prompts may be added at any time.", false}, [](O&, std::string_view n, const Json& v) { read_integer(n, v, {1}); }},
    {{"begin_suppress_tokens", "Tokens that must not come first."}, tokens<&O::begin_suppress_tokens>},
    {{"blank_penalty", "Must be 0: speech transducers are not supported.", false}, refused<kNoTransducers>},
    {{"chunk_size", "Prompt tokens per prefill run; 0 selects automatically."}, integer<&O::chunk_size, 0>},
    {{"diversity_penalty", "Must be 0: grouped beams are not supported.", false}, refused<kNoGroups>},
    {{"do_sample", "Samples tokens; otherwise the most likely is taken."}, [](O& o, std::string_view n, const Json& v) { o.do_sample = read_boolean(n, v); }},
    {{"early_stopping", "Beams stop once enough are finished (true), once improvement is unlikely (false), or once it is impossible (\"never\")."}, [](O& o, std::string_view n, const Json& v) { o.early_stopping = read_early_stopping(n, v); }},
    {{"epsilon_cutoff", "Drops tokens less probable than this."}, share<&O::epsilon_cutoff>},
    {{"eta_cutoff", "As epsilon_cutoff, but lower for flat distributions."}, share<&O::eta_cutoff>},
    {{"exponential_decay_length_penalty", "[start, factor]: end tokens gain after `start` new tokens."}, [](O& o, std::string_view n, const Json& v) {
       if (v.is_null()) { o.exponential_decay_length_penalty.reset(); return; }
       if (!v.is_array() || v.size() != 2) wrong(n, v, "[start, factor]");
       o.exponential_decay_length_penalty = {read_integer(n, v[0], {0}), read_number(n, v[1], {0, 1e6, true})}; }},
    {{"forced_bos_token_id", "The second token of a sequence."}, [](O& o, std::string_view n, const Json& v) { if (v.is_null()) o.forced_bos_token_id.reset(); else o.forced_bos_token_id = read_token(n, v); }},
    {{"forced_eos_token_id", "The last token within max_length."}, tokens<&O::forced_eos_token_id>},
    {{"frequency_penalty", "Subtracted from a token's logit for each time it was generated."}, [](O& o, std::string_view n, const Json& v) { o.frequency_penalty = read_number(n, v, {-1e6, 1e6}); }},
    {{"length_penalty", "Exponent of the length that divides beam scores."}, [](O& o, std::string_view n, const Json& v) { o.length_penalty = read_number(n, v, {-1e3, 1e3}); }},
    {{"length_penalty_counts_prompt", "Includes the prompt in that length."}, [](O& o, std::string_view n, const Json& v) { o.length_penalty_counts_prompt = read_boolean(n, v); }},
    {{"log_probabilities", "Reports the log-probability of each token and of the N most likely; 0 reports none."}, integer<&O::log_probabilities, 0>},
    {{"logit_bias", "An object from tokens to biases of their logits."}, [](O& o, std::string_view n, const Json& v) { o.logit_bias = read_logit_bias(n, v); }},
    {{"max_length", "Maximum tokens, with the prompt."}, integer<&O::max_length, 0>},
    {{"max_new_tokens", "Maximum generated tokens; 0: those that the context has room for."}, integer<&O::max_new_tokens, 0>},
    {{"min_length", "Minimum tokens, with the prompt, before an end token."}, integer<&O::min_length, 0>},
    {{"min_new_tokens", "Minimum generated tokens before an end token."}, integer<&O::min_new_tokens, 0>},
    {{"min_p", "Drops tokens less probable than this fraction of the most likely."}, share<&O::min_p>},
    {{"no_repeat_ngram_size", "No n-gram of this length appears twice; 0 disables."}, integer<&O::no_repeat_ngram_size, 0>},
    {{"num_beams", "Number of beams."}, integer<&O::num_beams, 1, 1024>},
    {{"num_return_sequences", "Number of beams or independent samples returned."}, integer<&O::num_return_sequences, 1, 1024>},
    {{"past_present_share_buffer", "No effect: KV caches grow as needed.", false}, [](O&, std::string_view n, const Json& v) { read_boolean(n, v); }},
    {{"presence_penalty", "Subtracted from the logits of generated tokens."}, [](O& o, std::string_view n, const Json& v) { o.presence_penalty = read_number(n, v, {-1e6, 1e6}); }},
    {{"random_seed", "Seed of sampling; -1 selects a random one."}, integer<&O::random_seed, -1>},
    {{"repetition_penalty", "Divides positive and multiplies negative logits of tokens seen."}, [](O& o, std::string_view n, const Json& v) { o.repetition_penalty = read_number(n, v, {0, 1e6, true}); }},
    {{"sequence_bias", "[[tokens, bias], …]: added to the last token after the others."}, [](O& o, std::string_view n, const Json& v) { o.sequence_bias = read_sequence_bias(n, v); }},
    {{"stop_strings", "Strings that end the generation."}, [](O& o, std::string_view n, const Json& v) { o.stop_strings = read_texts(n, v); }},
    {{"suppress_tokens", "Tokens that must not appear."}, tokens<&O::suppress_tokens>},
    {{"temperature", "Divides the logits; 0 selects the most likely token."}, [](O& o, std::string_view n, const Json& v) { o.temperature = read_number(n, v, {0, 1e6}); }},
    {{"top_k", "Keeps the k most likely tokens; 0 keeps all."}, integer<&O::top_k, 0>},
    {{"top_p", "Keeps the fewest most likely tokens whose probabilities reach this sum."}, share<&O::top_p>},
    {{"typical_p", "Keeps the tokens closest to the expected surprise, up to this probability."}, [](O& o, std::string_view n, const Json& v) { o.typical_p = read_number(n, v, {0, 1, true}); }},
    // clang-format on
});

}  // namespace

std::span<const SearchOptionInfo> search_options() {
  static const auto infos = [] {
    std::array<SearchOptionInfo, kEntries.size()> list;
    std::ranges::transform(kEntries, list.begin(), &Entry::info);
    return list;
  }();
  return infos;
}

void set_search_option(SearchOptions& options, std::string_view name, const Json& value) {
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  const auto* entry = std::ranges::find(kEntries, std::string_view(key),
                                        [](const Entry& e) { return e.info.name; });
  if (entry == kEntries.end()) {
    std::vector<std::string_view> names;
    for (const Entry& e : kEntries) names.push_back(e.info.name);
    fail(ErrorKind::invalid_argument, "unknown search option '{}'{}", escape(name),
         did_you_mean(key, names));
  }
  entry->set(options, entry->info.name, value);
}

void set_search_option(SearchOptions& options, std::string_view name, std::string_view text) {
  const Json value = Json::parse(text, nullptr, false);
  set_search_option(options, name, value.is_discarded() ? Json(std::string(text)) : value);
}

void set_search_options(SearchOptions& options, const Json& object) {
  check(object.is_object(), ErrorKind::invalid_argument,
        "search options are a {}, expected an object", object.type_name());
  for (const auto& [name, value] : object.items()) set_search_option(options, name, value);
}

void check_search_options(const SearchOptions& o, int64_t vocabulary) {
  check(o.num_beams == 1 || !o.do_sample, ErrorKind::unsupported,
        "do_sample with num_beams {}: beam search does not sample", o.num_beams);
  check(o.num_beams == 1 || o.num_return_sequences <= o.num_beams, ErrorKind::invalid_argument,
        "num_return_sequences is {}, with num_beams {}", o.num_return_sequences, o.num_beams);
  check(o.num_beams > 1 || o.num_return_sequences == 1 || !o.greedy(), ErrorKind::invalid_argument,
        "num_return_sequences is {}, but the search is greedy: set do_sample or num_beams",
        o.num_return_sequences);
  check(o.num_beams == 1 || vocabulary >= 2 * o.num_beams, ErrorKind::invalid_argument,
        "num_beams is {}, too many for a vocabulary of {}", o.num_beams, vocabulary);
  check(o.num_beams == 1 || o.log_probabilities == 0, ErrorKind::unsupported,
        "log_probabilities with num_beams {}: beams report scores instead", o.num_beams);
  const auto inside = [&](std::string_view name, std::span<const Token> list) {
    for (const Token token : list) {
      check(token < vocabulary, ErrorKind::invalid_argument,
            "search option '{}' has token {}, but the vocabulary has {}", name, token, vocabulary);
    }
  };
  for (const auto& word : o.bad_words_ids) inside("bad_words_ids", word);
  inside("suppress_tokens", o.suppress_tokens);
  inside("begin_suppress_tokens", o.begin_suppress_tokens);
  inside("forced_eos_token_id", o.forced_eos_token_id);
  if (o.forced_bos_token_id) inside("forced_bos_token_id", {&*o.forced_bos_token_id, 1});
  for (const auto& entry : o.sequence_bias) inside("sequence_bias", entry.tokens);
  for (const auto& entry : o.logit_bias) inside("logit_bias", {&entry.first, 1});
}

}  // namespace lathe::search
