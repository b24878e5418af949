// SPDX-License-Identifier: MIT
// Search options in the format in which they are read.
#include <nlohmann/json.hpp>

#include "llm/search/search_options.h"

namespace lathe::search {
namespace {

using Json = nlohmann::json;

Json early_stopping(EarlyStopping value) {
  if (value == EarlyStopping::never) return "never";
  return value == EarlyStopping::yes;
}

Json decay(const SearchOptions& o) {
  if (!o.exponential_decay_length_penalty) return nullptr;
  const auto [start, factor] = *o.exponential_decay_length_penalty;
  return Json::array({start, factor});
}

Json sequence_bias(const SearchOptions& o) {
  Json list = Json::array();
  for (const SequenceBias& entry : o.sequence_bias) {
    list.push_back(Json::array({entry.tokens, entry.bias}));
  }
  return list;
}

Json logit_bias(const SearchOptions& o) {
  Json object = Json::object();
  for (const auto& [token, bias] : o.logit_bias) object[std::to_string(token)] = bias;
  return object;
}

}  // namespace

Json search_options_json(const SearchOptions& o) {
  return {
      {"bad_words_ids", o.bad_words_ids},
      {"begin_suppress_tokens", o.begin_suppress_tokens},
      {"chunk_size", o.chunk_size},
      {"do_sample", o.do_sample},
      {"early_stopping", early_stopping(o.early_stopping)},
      {"epsilon_cutoff", o.epsilon_cutoff},
      {"eta_cutoff", o.eta_cutoff},
      {"exponential_decay_length_penalty", decay(o)},
      {"forced_bos_token_id", o.forced_bos_token_id ? Json(*o.forced_bos_token_id) : Json(nullptr)},
      {"forced_eos_token_id", o.forced_eos_token_id},
      {"frequency_penalty", o.frequency_penalty},
      {"length_penalty", o.length_penalty},
      {"length_penalty_counts_prompt", o.length_penalty_counts_prompt},
      {"log_probabilities", o.log_probabilities},
      {"logit_bias", logit_bias(o)},
      {"max_length", o.max_length},
      {"max_new_tokens", o.max_new_tokens},
      {"min_length", o.min_length},
      {"min_new_tokens", o.min_new_tokens},
      {"min_p", o.min_p},
      {"no_repeat_ngram_size", o.no_repeat_ngram_size},
      {"num_beams", o.num_beams},
      {"num_return_sequences", o.num_return_sequences},
      {"presence_penalty", o.presence_penalty},
      {"random_seed", o.random_seed},
      {"repetition_penalty", o.repetition_penalty},
      {"sequence_bias", sequence_bias(o)},
      {"stop_strings", o.stop_strings},
      {"suppress_tokens", o.suppress_tokens},
      {"temperature", o.temperature},
      {"top_k", o.top_k},
      {"top_p", o.top_p},
      {"typical_p", o.typical_p}};
}

}  // namespace lathe::search
