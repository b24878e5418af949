// SPDX-License-Identifier: MIT
#include "llm/model/model_folder.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/file_map.h"
#include "import/checkpoint/audio_encoder.h"
#include "import/checkpoint/checkpoint.h"
#include "import/load_model.h"
#include "import/onnx/reader.h"
#include "ir/parse.h"
#include "llm/config/change_config.h"
#include "llm/model/checkpoint_config.h"
#include "llm/model/compiled_model.h"
#include "llm/model/hub_cache.h"
#include "passes/link_programs.h"

namespace lathe::llm {

ModelFolder::ModelFolder(const std::string& path, const std::string& overlay,
                         const MemoryFiles& files)
    : path_(files.empty() ? resolve_model(path) : path),
      compiled_(open_compiled_model(path_)),
      folder_(open_folder(path_, files)),
      gguf_(compiled_ == nullptr ? gguf_tokenizer_folder(path_) : std::nullopt) {
  constexpr std::string_view kGeneration = "generation_config.json";
  std::string json = genai_config_text(folder_);
  if (!overlay.empty()) json = overlay_config(json, overlay);
  config_ = read_genai_config(json, config_path());
  if (folder_.has(kGeneration)) {
    read_generation_config(folder_.open(kGeneration).text, folder_.place(kGeneration), config_);
  }
}

std::string ModelFolder::config_path() const {
  if (gguf_) return path();
  constexpr std::string_view kOwn = "genai_config.json", kHf = "config.json";
  const std::string_view name = !folder_.has(kOwn) && folder_.has(kHf) ? kHf : kOwn;
  return path().empty() ? std::string(name) : join_path(path(), name);
}

Folder ModelFolder::beside() const {
  if (gguf_) return *gguf_;
  return config_.tokenizer_folder.empty() ? folder_ : folder_.below(config_.tokenizer_folder);
}

std::string ModelFolder::file(const std::string& name) const {
  if (gguf_ && name.ends_with(".gguf")) return path();
  if (compiled_ != nullptr && compiled_->has_graph(name)) return name;
  if (name == kCheckpointEncoder) return file("config.json");
  if (folder_.files().contains(plain_name(name))) return name;
  const std::string config = config_path();
  const bool inside = !name.empty() && !name.starts_with('/') && name != ".." &&
                      !name.starts_with("../") && name.find("/../") == std::string::npos;
  check(inside, ErrorKind::invalid_model, "'{}' names the file '{}', which is not in its folder",
        escape(config), escape(name));
  check(folder_.has(name), ErrorKind::io, "'{}' names the file '{}', which is not there",
        escape(config), escape(name));
  return folder_.path() + "/" + name;
}

std::unique_ptr<Program> ModelFolder::load(const std::string& name) const {
  std::unique_ptr<Program> program = read(name);
  return loaded_ ? loaded_(name, std::move(program)) : std::move(program);
}

std::unique_ptr<Program> ModelFolder::read(const std::string& name) const {
  if (compiled_ != nullptr) return compiled_->graph(name);
  if (name == kCheckpointEncoder) {
    return checkpoint::import_audio_encoder(checkpoint::open_hf_folder(folder_));
  }
  if (is_checkpoint_file(name)) {
    return checkpoint::import_checkpoint(gguf_ ? checkpoint::open_gguf(path())
                                               : checkpoint::open_hf_folder(folder_));
  }
  // External data is relative to the model file.
  const Folder own = folder_.below(parent_folder(name));
  if (!folder_.files().contains(plain_name(name))) return load_model(file(name), {}, own.files());
  const auto& [bytes, owner] = folder_.open(name);
  if (looks_like_program(bytes)) return parse_program(bytes, {.file = name});
  const std::string on_disk = is_folder(own.path()) ? own.path() : "";
  return import_onnx(onnx::parse_model(bytes, name, owner, on_disk, own.files()));
}

namespace {

void check_stage(const StageConfig& stage, const Program& program) {
  for (const std::string& name : stage.inputs) {
    check(has_parameter(program, name), ErrorKind::invalid_model,
          "stage '{}' has no input '{}': its file '{}' has none of that name", escape(stage.name),
          escape(name), escape(stage.program.filename));
  }
  for (const std::string& name : stage.outputs) {
    check(std::ranges::count(program.main().result_names(), name) > 0, ErrorKind::invalid_model,
          "stage '{}' has no output '{}': its file '{}' has none of that name", escape(stage.name),
          escape(name), escape(stage.program.filename));
  }
}

}  // namespace

DecoderPrograms ModelFolder::load_decoder() const {
  const DecoderConfig& decoder = config_.decoder;
  if (decoder.pipeline.empty()) return {load(decoder.filename), nullptr};
  // Reads a file once even if several stages name it.
  std::map<std::string, std::unique_ptr<Program>> programs;
  std::vector<ProgramPart> prompt, token;
  bool alike = true;
  for (const StageConfig& stage : decoder.pipeline) {
    if (!stage.run_on_prompt && !stage.run_on_token) continue;
    std::unique_ptr<Program>& program = programs[stage.program.filename];
    if (program == nullptr) program = load(stage.program.filename);
    check_stage(stage, *program);
    if (stage.run_on_prompt) prompt.push_back({program.get(), stage.forwarded});
    if (stage.run_on_token) token.push_back({program.get(), stage.forwarded});
    alike = alike && stage.run_on_prompt == stage.run_on_token;
  }
  check(!prompt.empty() && !token.empty(), ErrorKind::invalid_model,
        "'model.decoder.pipeline' has {} stages that run on prompts and {} that run on single "
        "tokens",
        prompt.size(), token.size());
  return {link_programs(token), alike ? nullptr : link_programs(prompt)};
}

std::string name_of(const Names& names, std::string_view noun, std::string_view fallback) {
  const auto at = names.find(std::string(noun));
  return at == names.end() ? std::string(fallback) : at->second;
}

std::string layer_name(std::string_view pattern, int64_t layer) {
  std::string name(pattern);
  const size_t at = name.find("%d");
  if (at != std::string::npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

bool has_parameter(const Program& program, std::string_view name) {
  return std::ranges::any_of(program.main().parameters(),
                             [&](const auto& parameter) { return parameter->name() == name; });
}

namespace {

void add_cross(const DecoderConfig& config, const DecoderConfig& encoder, const Program& program,
               DecoderInterface& names) {
  const std::vector<StatePair> patterns = {
      {name_of(config.inputs, "cross_past_key_names", "past_key_cross_%d"),
       name_of(encoder.outputs, "cross_present_key_names", "present_key_cross_%d")},
      {name_of(config.inputs, "cross_past_value_names", "past_value_cross_%d"),
       name_of(encoder.outputs, "cross_present_value_names", "present_value_cross_%d")},
      {name_of(config.inputs, "encoder_hidden_states", "encoder_hidden_states"),
       name_of(encoder.outputs, "encoder_hidden_states",
               name_of(encoder.outputs, "encoder_outputs", "encoder_outputs"))},
      {name_of(config.inputs, "encoder_attention_mask", "encoder_attention_mask"),
       name_of(encoder.inputs, "attention_mask", "attention_mask")},
  };
  for (int64_t layer = 0; layer < std::max<int64_t>(config.num_hidden_layers, 1); ++layer) {
    for (const StatePair& p : patterns) {
      const StatePair pair = {layer_name(p.past, layer), layer_name(p.present, layer)};
      const bool known =
          std::ranges::find(names.cross, pair.past, &StatePair::past) != names.cross.end();
      if (!known && has_parameter(program, pair.past)) names.cross.push_back(pair);
    }
  }
}

// Layers with an input of this name, ascending. The program decides: the configuration counts
// layers of all kinds as one.
std::vector<int64_t> layers_of(const Program& program, std::string_view pattern) {
  constexpr size_t kMostDigits = 6;
  std::vector<int64_t> layers;
  const size_t at = pattern.find("%d");
  if (at == std::string_view::npos) return layers;
  const std::string_view before = pattern.substr(0, at);
  const std::string_view after = pattern.substr(at + 2);
  for (const auto& parameter : program.main().parameters()) {
    std::string_view name = parameter->name();
    if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
        !name.ends_with(after)) {
      continue;
    }
    name = name.substr(before.size(), name.size() - before.size() - after.size());
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (error == std::errc() && end == name.data() + name.size() && name.size() <= kMostDigits &&
        layer >= 0) {
      layers.push_back(layer);
    }
  }
  std::ranges::sort(layers);
  return layers;
}

// Key and value names must both match inputs: if only one does, the other is wrong.
void check_cache_names(const DecoderConfig& config, const Program& program,
                       const DecoderInterface& names) {
  const auto matches = [&](std::string_view noun) {
    const std::string pattern = name_of(config.inputs, noun, "");
    return pattern.empty() || has_parameter(program, pattern) ||
           !layers_of(program, pattern).empty();
  };
  const bool keys = matches("past_key_names");
  const bool values = matches("past_value_names");
  if (keys == values && (keys || !names.states.empty())) return;
  const std::string_view noun = keys ? "past_value_names" : "past_key_names";
  const std::string first = layer_name(name_of(config.inputs, noun, ""), 0);
  std::vector<std::string_view> known;
  for (const auto& parameter : program.main().parameters()) known.push_back(parameter->name());
  fail(ErrorKind::invalid_model,
       "'model.decoder.inputs.{}' is '{}', but the model has no such input{}; it has: {}", noun,
       escape(first), did_you_mean(first, known),
       escape(fmt::format("{}", fmt::join(known, ", ")), 400));
}

}  // namespace

DecoderInterface decoder_interface(const DecoderConfig& config, const Program& program,
                                   const DecoderConfig* encoder) {
  const auto input = [&](std::string_view noun, std::string_view fallback) {
    std::string name = name_of(config.inputs, noun, fallback);
    if (!has_parameter(program, name)) name.clear();
    return name;
  };
  DecoderInterface names;
  names.tokens = name_of(config.inputs, "input_ids", "input_ids");
  names.embeddings = input("inputs_embeds", "inputs_embeds");
  const std::string more = input("per_layer_inputs", "per_layer_inputs");
  for (const std::string& name : {names.embeddings, more}) {
    if (!name.empty()) names.token_inputs.push_back(name);
  }
  if (!names.embeddings.empty() && !has_parameter(program, names.tokens)) {
    names.tokens = names.embeddings;
    names.token_inputs.erase(names.token_inputs.begin());
  }
  names.positions = input("position_ids", "position_ids");
  names.mask = input("attention_mask", "attention_mask");
  names.past_length = input("past_sequence_length", "past_sequence_length");
  if (names.past_length.empty()) {
    names.past_length = input("past_key_values_length", "past_key_values_length");
  }
  names.new_length = input("current_sequence_length", "current_sequence_length");
  names.total_length = input("total_sequence_length", "total_sequence_length");
  // Names in graphs with KV caches of fixed shape: the slot of the first new token, and the length
  // after it.
  if (names.past_length.empty() && has_parameter(program, "write_indices")) {
    names.past_length = "write_indices";
  }
  if (names.total_length.empty() && has_parameter(program, "nonpad_kv_seqlen")) {
    names.total_length = "nonpad_kv_seqlen";
  }
  names.block_table = input("block_table", "block_table");
  names.token_bounds = input("cumulative_sequence_lengths", "cumulative_sequence_lengths");
  names.past_lengths = input("past_sequence_lengths", "past_sequence_lengths");
  names.block_metadata = input("attention_metadata", "attention_metadata");
  names.logits = name_of(config.outputs, "logits", "logits");
  struct Pattern {
    std::string past;
    std::string present;
  };
  const auto pattern = [&](std::string_view past, std::string_view past_name,
                           std::string_view present, std::string_view present_name) {
    return Pattern{name_of(config.inputs, past, past_name),
                   name_of(config.outputs, present, present_name)};
  };
  const std::vector<Pattern> patterns = {
      pattern("past_key_names", "past_key_values.%d.key", "present_key_names", "present.%d.key"),
      pattern("past_value_names", "past_key_values.%d.value", "present_value_names",
              "present.%d.value"),
      pattern("past_names", "past_%d", "present_names", "present_%d"),
      pattern("past_conv_names", "past_conv.%d", "present_conv_names", "present_conv.%d"),
      pattern("past_recurrent_names", "", "present_recurrent_names", ""),
      {"past_key_values.%d.conv_state", "present.%d.conv_state"},
      {"past_key_values.%d.recurrent_state", "present.%d.recurrent_state"},
      pattern("rnn_states_prev", "rnn_states_prev", "rnn_states", "rnn_states"),
  };
  std::set<int64_t> layers = {0};  // a name without a layer belongs to the first
  for (const Pattern& p : patterns) {
    for (const int64_t layer : layers_of(program, p.past)) layers.insert(layer);
  }
  for (const int64_t layer : layers) {
    for (const Pattern& p : patterns) {
      const std::string past = layer_name(p.past, layer);
      const bool known =
          std::ranges::find(names.states, past, &StatePair::past) != names.states.end();
      if (!known && has_parameter(program, past)) {
        names.states.push_back({past, layer_name(p.present, layer)});
      }
    }
  }
  check_cache_names(config, program, names);
  if (encoder != nullptr) add_cross(config, *encoder, program, names);
  return names;
}

}  // namespace lathe::llm
