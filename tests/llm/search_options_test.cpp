// SPDX-License-Identifier: MIT
#include "llm/search/search_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lathe::search {
namespace {

using Json = nlohmann::json;

size_t count_with_values() {
  return static_cast<size_t>(
      std::ranges::count(search_options(), true, &SearchOptionInfo::has_value));
}

TEST(SearchOptions, are_written_as_they_are_read) {
  const Json given = Json::parse(R"({"bad_words_ids": [[1, 2], [3]], "begin_suppress_tokens": [4],
    "chunk_size": 5, "do_sample": true, "early_stopping": "never", "epsilon_cutoff": 0.125,
    "eta_cutoff": 0.25, "exponential_decay_length_penalty": [6, 1.5], "forced_bos_token_id": 7,
    "forced_eos_token_id": [8], "frequency_penalty": 0.5, "length_penalty": 2.0,
    "length_penalty_counts_prompt": false, "log_probabilities": 22, "logit_bias": {"9": -1.0},
    "max_length": 10,
    "max_new_tokens": 11, "min_length": 12, "min_new_tokens": 13, "min_p": 0.75,
    "no_repeat_ngram_size": 14, "num_beams": 15, "num_return_sequences": 16,
    "presence_penalty": -0.5, "random_seed": 17, "repetition_penalty": 1.25,
    "sequence_bias": [[[18, 19], -3.0]], "stop_strings": ["a", "b"], "suppress_tokens": [20],
    "temperature": 0.375, "top_k": 21, "top_p": 0.625, "typical_p": 0.875})");
  SearchOptions options;
  set_search_options(options, given);
  EXPECT_EQ(search_options_json(options), given);
  EXPECT_EQ(given.size(), count_with_values());
}

TEST(SearchOptions, defaults_can_be_read_again) {
  const Json defaults = search_options_json({});
  EXPECT_EQ(defaults.size(), count_with_values());
  SearchOptions options;
  set_search_options(options, defaults);
  EXPECT_EQ(search_options_json(options), defaults);
}

TEST(SearchOptions, without_effect_are_accepted_or_refused_with_a_reason) {
  SearchOptions options;
  set_search_option(options, "batch_size", Json(4));
  set_search_option(options, "past-present-share-buffer", Json(true));
  set_search_option(options, "diversity_penalty", Json(0.0));
  set_search_option(options, "blank_penalty", Json(0));
  EXPECT_EQ(search_options_json(options), search_options_json({}));
  const auto message = [&](std::string_view name, const Json& value) {
    try {
      set_search_option(options, name, value);
    } catch (const Error& error) {
      return fmt::format("{}: {}", error_kind_info(error.kind()).name, error.message());
    }
    return std::string("no error");
  };
  EXPECT_EQ(
      message("diversity_penalty", 0.5),
      "Unsupported: search option 'diversity_penalty' is 0.5: grouped beams are not supported");
  EXPECT_EQ(
      message("blank_penalty", 2),
      "Unsupported: search option 'blank_penalty' is 2: speech transducers are not supported");
  EXPECT_EQ(message("batch_size", 0),
            "InvalidArgument: search option 'batch_size' is 0, expected an integer from 1 on");
  EXPECT_EQ(
      message("past_present_share_buffer", "yes"),
      "InvalidArgument: search option 'past_present_share_buffer' is \"yes\", expected true or "
      "false");
}

}  // namespace
}  // namespace lathe::search
