// SPDX-License-Identifier: MIT
#include "llm/config/genai_config.h"

#include <algorithm>
#include <array>

#include "llm/config/json_object.h"
#include "llm/config/providers.h"

namespace lathe::llm {
namespace {

constexpr int64_t kMostLayers = 100'000;  // bounds the names created per layer
constexpr int64_t kMostThreads = 1024;    // limit of --threads
constexpr size_t kMostBytes = size_t{4} << 20;

void read_providers(JsonObject& o, std::vector<ProviderChoice>& providers) {
  const Json* list = o.member("provider_options");
  if (list == nullptr) return;
  check(list->is_array(), ErrorKind::invalid_model, "'{}' is a {}, expected a list",
        o.place("provider_options"), list->type_name());
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string place = fmt::format("{}[{}]", o.place("provider_options"), i);
    JsonObject entry((*list)[i], place);
    for (const auto& [name, options] : (*list)[i].items()) {
      if (find_provider(name) == nullptr) {
        std::vector<std::string_view> known;
        for (const Provider& provider : llm::providers()) known.push_back(provider.name);
        fail(ErrorKind::invalid_model, "'{}' has the unknown provider '{}'{}", place, escape(name),
             did_you_mean(name, known));
      }
      ProviderChoice choice{.name = name};
      entry.read(name, choice.options);
      providers.push_back(std::move(choice));
    }
  }
}

void read_session(JsonObject& o, SessionSettings& session) {
  if (std::optional<JsonObject> options = o.object("session_options")) {
    options->refuse({"custom_ops_library"});
    options->read("intra_op_num_threads", session.threads, -1);
    read_providers(*options, session.providers);
    session.entries = options->rest();
  }
  if (std::optional<JsonObject> options = o.object("run_options"))
    session.entries.merge(options->rest());
}

void read_window(JsonObject& o, DecoderConfig& decoder) {
  std::optional<JsonObject> w = o.object("sliding_window");
  if (!w) return;
  SlidingWindow window;
  w->read("window_size", window.window_size, 1);
  w->read("layers", window.layers);
  // Buffer layout of GenAI, without effect here.
  std::string alignment;
  bool slide = true;
  int64_t value = 0;
  w->read("pad_value", value);
  w->read("alignment", alignment);
  w->read("slide_key_value_cache", slide);
  w->read("slide_inputs", slide);
  w->read("cache_slack", value);
  w->finish();
  decoder.window = window;
}

void read_stage(JsonObject stage, std::string name, std::vector<StageConfig>& pipeline) {
  StageConfig s{.name = std::move(name)};
  stage.read("filename", s.program.filename);
  read_session(stage, s.program.session);
  stage.read("inputs", s.inputs);
  stage.read("outputs", s.outputs);
  stage.read("output_names_forwarder", s.forwarded);
  stage.read("run_on_prompt", s.run_on_prompt);
  stage.read("run_on_token_gen", s.run_on_token);
  stage.read("is_lm_head", s.is_head);
  bool inherit = true;
  stage.read("inherit_session_options", inherit);
  int64_t reset = -1;
  stage.read("reset_session_idx", reset, -1);
  stage.finish();
  check(!s.program.filename.empty(), ErrorKind::invalid_model, "'{}' is missing",
        stage.place("filename"));
  pipeline.push_back(std::move(s));
}

// A list of objects with one stage each, or one object of stages.
void read_pipeline(JsonObject& o, std::vector<StageConfig>& pipeline) {
  const Json* value = o.member("pipeline");
  if (value == nullptr) return;
  const std::string place = o.place("pipeline");
  for (const Json& group : value->is_array() ? *value : Json::array({*value})) {
    JsonObject(group, place);
    for (const auto& [name, stage] : group.items()) {
      read_stage(JsonObject(stage, fmt::format("{}.{}", place, escape(name))), name, pipeline);
    }
  }
}

void read_program(JsonObject& o, ProgramConfig& program) {
  o.read("filename", program.filename);
  read_session(o, program.session);
}

void read_sizes(JsonObject& o, DecoderConfig& decoder) {
  o.read("hidden_size", decoder.hidden_size);
  o.read("num_attention_heads", decoder.num_attention_heads);
  o.read("num_key_value_heads", decoder.num_key_value_heads);
  o.read("num_hidden_layers", decoder.num_hidden_layers);
  check(decoder.num_hidden_layers <= kMostLayers, ErrorKind::invalid_model,
        "'{}' is {}, expected at most {}", o.place("num_hidden_layers"), decoder.num_hidden_layers,
        kMostLayers);
  o.read("head_size", decoder.head_size);
}

void read_decoder(JsonObject o, DecoderConfig& d) {
  read_program(o, d);
  read_sizes(o, d);
  o.read("layer_types", d.layer_types);
  o.read("conv_cache_size", d.conv_cache_size);
  read_window(o, d);
  read_pipeline(o, d.pipeline);
  o.refuse({"shared_initializers"});
  o.read_names("inputs", d.inputs,
               {"input_ids",
                "inputs_embeds",
                "attention_mask",
                "position_ids",
                "past_key_names",
                "past_value_names",
                "past_names",
                "cross_past_key_names",
                "cross_past_value_names",
                "past_key_values_length",
                "past_sequence_length",
                "current_sequence_length",
                "total_sequence_length",
                "cache_indirection",
                "encoder_hidden_states",
                "encoder_attention_mask",
                "rnn_states_prev",
                "cumulative_sequence_lengths",
                "past_sequence_lengths",
                "block_table",
                "block_table_windowed",
                "attention_metadata",
                "past_conv_names",
                "past_recurrent_names",
                "hidden_states",
                "targets",
                "targets_length",
                "lstm_hidden_state",
                "lstm_cell_state",
                "per_layer_inputs"});
  o.read_names(
      "outputs", d.outputs,
      {"logits", "present_key_names", "present_value_names", "present_names",
       "output_cross_qk_names", "rnn_states", "present_conv_names", "present_recurrent_names",
       "hidden_states", "outputs", "outputs_length", "lstm_hidden_state", "lstm_cell_state"});
  o.finish();
  check(!d.filename.empty() || !d.pipeline.empty(), ErrorKind::invalid_model, "'{}' is missing",
        o.place("filename"));
}

void read_encoder(JsonObject o, DecoderConfig& e) {
  read_program(o, e);
  read_sizes(o, e);
  o.read_names("inputs", e.inputs,
               {"input_ids", "inputs_embeds", "attention_mask", "position_ids", "audio_features",
                "input_lengths", "cache_last_channel", "cache_last_time", "cache_last_channel_len",
                "lang_id"});
  o.read_names("outputs", e.outputs,
               {"encoder_outputs", "encoder_hidden_states", "cross_present_key_names",
                "cross_present_value_names", "output_lengths", "cache_last_channel_next",
                "cache_last_time_next", "cache_last_channel_len_next"});
  o.finish();
}

// Reads vision, speech and embedding: programs around the decoder.
void read_part(JsonObject& model, std::string_view key, GenaiConfig& config) {
  std::optional<JsonObject> o = model.object(key);
  if (!o) return;
  ProgramConfig part;
  read_program(*o, part);
  std::string text;
  if (key == "embedding") {
    o->refuse({"pipeline", "adapter_filename"});
  } else {
    // Vision and audio programs do not run; text requires neither their stages nor their adapters.
    o->read("adapter_filename", text);
    const Json* stages = o->member("pipeline");
    check(stages == nullptr || stages->is_array() || stages->is_object(), ErrorKind::invalid_model,
          "'{}' is a {}, expected a list", o->place("pipeline"),
          stages == nullptr ? "" : stages->type_name());
  }
  o->read("config_filename", text);
  double number = 0;
  for (const std::string_view name : {"spatial_merge_size", "tokens_per_second", "patch_size",
                                      "num_visual_tokens", "window_size"}) {
    o->read(name, number);
  }
  o->read_names("inputs", part.inputs,
                {"pixel_values", "pixel_position_ids", "image_sizes", "image_grid_thw",
                 "attention_mask", "audio_embeds", "audio_sizes", "audio_projection_mode",
                 "input_ids", "image_features", "audio_features"});
  o->read_names("outputs", part.outputs,
                {"image_features", "audio_features", "inputs_embeds", "per_layer_inputs"});
  o->finish();
  config.parts[std::string(key)] = std::move(part);
}

// Appends to the known end tokens.
void read_end_tokens(JsonObject& o, GenaiConfig& config) {
  std::vector<int64_t> ends;
  o.read("eos_token_id", ends);
  for (const int64_t token : ends) {
    check(token >= 0 && (config.vocab_size == 0 || token < config.vocab_size),
          ErrorKind::invalid_model, "'{}' is {}, but the vocabulary has {} tokens",
          o.place("eos_token_id"), token, config.vocab_size);
    if (std::ranges::find(config.end_tokens, token) == config.end_tokens.end()) {
      config.end_tokens.push_back(token);
    }
  }
}

void read_tokens(JsonObject& o, GenaiConfig& config) {
  constexpr auto kTokens = std::to_array<std::string_view>(
      {"pad_token_id", "bos_token_id", "sep_token_id", "decoder_start_token_id", "image_token_id",
       "audio_token_id", "boa_token_id", "video_token_id", "vision_start_token_id", "bot_token_id",
       "eot_token_id", "bor_token_id", "eor_token_id"});
  for (const std::string_view name : kTokens) {
    std::optional<int64_t> token;
    o.read(name, token, -1);
    if (token) config.tokens[std::string(name)] = *token;
  }
  read_end_tokens(o, config);
}

// Audio options: GenAI reads these keys for any type, but uses them only for speech models.
void refuse_speech(JsonObject& o, std::string_view type) {
  constexpr auto kKeys = std::to_array<std::string_view>(
      {"num_mels", "fft_size", "hop_length", "win_length", "preemph", "log_eps", "norm_eps",
       "subsampling_factor", "left_context", "conv_context", "pre_encode_cache_size", "sample_rate",
       "chunk_samples", "blank_id", "max_symbols_per_step", "left_context_samples",
       "right_context_samples", "tdt_durations"});
  for (const std::string_view key : kKeys) {
    check(!o.has(key), ErrorKind::unsupported,
          "'{}' is for speech models, which are not supported: the type is '{}'", o.place(key),
          type);
  }
}

// The structure decides how an unknown type runs. Only the type defines how images and audio become
// inputs.
void read_unknown_type(JsonObject& o, GenaiConfig& config) {
  for (const std::string_view part : {"vision", "speech", "embedding"}) {
    check(!o.has(part), ErrorKind::unsupported,
          "'{}' requires a known model type, but '{}' is '{}'{}", o.place(part), o.place("type"),
          escape(config.type), did_you_mean_type(config.type));
  }
  config.type_is_known = false;
  config.kind = o.has("encoder") ? ModelKind::encoder_decoder : ModelKind::decoder;
}

void read_model(JsonObject o, GenaiConfig& config) {
  o.read("type", config.type);
  check(!config.type.empty(), ErrorKind::invalid_model, "'{}' is missing", o.place("type"));
  if (const ModelType* type = find_model_type(config.type)) {
    config.kind = type->kind;
  } else {
    read_unknown_type(o, config);
  }
  check(config.kind != ModelKind::speech, ErrorKind::unsupported,
        "'{}' is '{}': speech models are not supported", o.place("type"), config.type);
  refuse_speech(o, config.type);
  o.read("tokenizer_dir", config.tokenizer_folder);
  o.read("vocab_size", config.vocab_size);
  o.read("context_length", config.context_length);
  check(config.context_length > 0, ErrorKind::invalid_model,
        "'{}' is {}, expected a positive integer", o.place("context_length"),
        config.context_length);
  read_tokens(o, config);
  o.refuse({"draft", "mtp", "joiner", "vad"});
  std::optional<JsonObject> decoder = o.object("decoder");
  check(decoder.has_value(), ErrorKind::invalid_model, "'{}' is missing", o.place("decoder"));
  read_decoder(*decoder, config.decoder);
  if (std::optional<JsonObject> encoder = o.object("encoder")) {
    read_encoder(*encoder, config.encoder.emplace());
  }
  for (const std::string_view part : {"vision", "speech", "embedding"}) read_part(o, part, config);
  o.finish();
}

void read_engine(JsonObject& root) {
  std::optional<JsonObject> engine = root.object("engine");
  if (!engine) return;
  for (const std::string_view kind : {"dynamic_batching", "static_batching"}) {
    std::optional<JsonObject> batching = engine->object(kind);
    if (!batching) continue;
    // These keys have no effect: the runtime sizes pages and batches.
    double number = 0;
    for (const std::string_view key : {"block_size", "num_blocks", "gpu_utilization_factor",
                                       "max_batch_size", "max_scheduled_tokens", "chunk_size"}) {
      batching->read(key, number);
    }
    batching->finish();
  }
  engine->finish();
}

void read_search(const Json& options, GenaiConfig& config) {
  set_search_options(config.search, options);
  for (const auto& [name, value] : options.items()) {
    std::string key = name;
    std::ranges::replace(key, '-', '_');
    config.given_search.insert(std::move(key));
  }
}

// Sampling methods of Transformers that Lathe lacks, with the value that disables them; an empty
// list or object disables them, too.
constexpr auto kUnsupported =
    std::to_array<std::pair<std::string_view, double>>({{"constraints", 0},
                                                        {"encoder_no_repeat_ngram_size", 0},
                                                        {"encoder_repetition_penalty", 1},
                                                        {"force_words_ids", 0},
                                                        {"forced_decoder_ids", 0},
                                                        {"guidance_scale", 1},
                                                        {"num_beam_groups", 1},
                                                        {"penalty_alpha", 0},
                                                        {"top_h", 0},
                                                        {"watermarking_config", 0}});

bool is_neutral(const Json& value, double neutral) {
  return value.is_number() ? value.get<double>() == neutral : value.empty();
}

}  // namespace

std::optional<int64_t> GenaiConfig::token(std::string_view name) const {
  const auto at = tokens.find(std::string(name));
  return at == tokens.end() || at->second < 0 ? std::nullopt : std::optional(at->second);
}

int GenaiConfig::threads() const {
  std::vector<const SessionSettings*> sessions = {&decoder.session};
  for (const StageConfig& stage : decoder.pipeline) sessions.push_back(&stage.program.session);
  if (encoder) sessions.push_back(&encoder->session);
  for (const SessionSettings* session : sessions) {
    const int64_t threads = session->threads.value_or(0);
    if (threads > 0) return static_cast<int>(std::min(threads, kMostThreads));
  }
  return 0;
}

GenaiConfig read_genai_config(std::string_view json, std::string_view name) {
  GenaiConfig config;
  try {
    const Json document = parse_json(json, name, kMostBytes);
    JsonObject root(document, "");
    std::optional<JsonObject> model = root.object("model");
    check(model.has_value(), ErrorKind::invalid_model, "'{}' is missing", "model");
    read_model(*model, config);
    if (const Json* options = root.member("search")) read_search(*options, config);
    read_engine(root);
    root.refuse({"speculative"});
    root.finish();
  } catch (Error& error) {
    error.note(fmt::format("in {}", escape(name)));
    throw;
  }
  return config;
}

void read_generation_config(std::string_view json, std::string_view name, GenaiConfig& config) {
  try {
    const Json document = parse_json(json, name, kMostBytes);
    JsonObject root(document, "");
    read_end_tokens(root, config);
    for (const search::SearchOptionInfo& option : search::search_options()) {
      const Json* value = root.member(option.name);
      const bool counts = value != nullptr && !config.given_search.contains(option.name);
      if (counts) set_search_option(config.search, option.name, *value);
    }
    for (const auto& [key, neutral] : kUnsupported) {
      const Json* value = root.member(key);
      if (value != nullptr && !is_neutral(*value, neutral)) config.unsupported.emplace_back(key);
    }
  } catch (Error& error) {
    error.note(fmt::format("in {}", escape(name)));
    throw;
  }
}

}  // namespace lathe::llm
