// SPDX-License-Identifier: MIT
#include "import/checkpoint/config.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = size_t{4} << 20;
constexpr double kMaxInteger = 2147483647;

// Names of GPT-2, Qwen, LFM2 and Whisper for common values.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"n_embd", "hidden_size"},
    {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"},
    {"n_positions", "max_position_embeddings"},
    {"d_model", "hidden_size"},
    {"decoder_layers", "num_hidden_layers"},
    {"decoder_attention_heads", "num_attention_heads"},
    {"max_target_positions", "max_position_embeddings"},
    {"num_experts", "num_local_experts"},
    {"tie_embedding", "tie_word_embeddings"}};

// Transformers 4 names some kinds of scaling differently.
std::string rope_type_of(const Json& scaling) {
  std::string type = "default";
  for (const char* name : {"type", "rope_type"}) {
    const auto at = scaling.find(name);
    if (at == scaling.end() || at->is_null()) continue;
    check(at->is_string(), ErrorKind::invalid_model, "'{}' of the RoPE is {}, expected a string",
          name, escape(at->dump(), 80));
    type = at->get<std::string>();
  }
  return type == "su" ? "longrope" : type == "mrope" ? "default" : type;
}

// The first of `names` that is a non-empty object, else an empty one.
Json first_object(const Json& config, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto at = config.find(name);
    if (at == config.end() || at->is_null()) continue;
    check(at->is_object(), ErrorKind::invalid_model, "'{}' is {}, expected an object", name,
          escape(at->dump(), 80));
    if (!at->empty()) return *at;
  }
  return Json::object();
}

// Moves a value beside the RoPE parameters, as Transformers 4 writes it, unless they have it.
void move_rope_value(const Json& from, const char* name, Json& rope, const char* to) {
  const auto at = from.find(name);
  if (at != from.end() && !at->is_null() && !rope.contains(to)) rope[to] = *at;
}

// Gemma 3: windows have a RoPE of their own, and `rope_scaling` is of the other layers.
Json rope_by_layer_type(const Json& config) {
  const Json given = first_object(config, {"rope_parameters"});
  Json full = first_object(given, {"full_attention"});
  full.update(first_object(config, {"rope_scaling"}));
  Json window = first_object(given, {"sliding_attention"});
  move_rope_value(config, "rope_theta", full, "rope_theta");
  move_rope_value(config, "rope_local_base_freq", window, "rope_theta");
  for (Json* one : {&full, &window}) (*one)["rope_type"] = rope_type_of(*one);
  return {{"full_attention", full}, {"sliding_attention", window}};
}

void convert_rope(Json& config) {
  if (config.contains("rope_local_base_freq")) {
    config["rope_parameters"] = rope_by_layer_type(config);
    return;
  }
  Json rope = first_object(config, {"rope_scaling", "rope_parameters"});
  if (!rope.contains("full_attention")) {
    rope["rope_type"] = rope_type_of(rope);
    for (const char* name :
         {"rope_theta", "partial_rotary_factor", "original_max_position_embeddings"}) {
      move_rope_value(config, name, rope, name);
    }
    // Phi 3 and 4 have their own beside them, which decides.
    const Json type = config.value("model_type", Json());
    if (type == "phi3" || type == "phi4_multimodal") {
      rope["original_max_position_embeddings"] = config["original_max_position_embeddings"];
    }
  }
  config["rope_parameters"] = rope;
}

// What the values of rope_parameters are called in files of Transformers 4.
void add_rope_names(const Json& config, Config::Names& names) {
  const bool by_layer = config.contains("rope_local_base_freq");
  const std::string full = by_layer ? "rope_parameters.full_attention." : "rope_parameters.";
  const Json given = by_layer ? Json::object() : config.value("rope_parameters", Json());
  for (const char* name :
       {"rope_theta", "partial_rotary_factor", "original_max_position_embeddings"}) {
    if (config.contains(name) && !given.contains(name)) names[full + name] = name;
  }
  const auto scaling = config.find("rope_scaling");
  if (scaling != config.end() && scaling->is_object()) {
    names[full + "factor"] = "rope_scaling.factor";  // where it is missing
    for (const auto& [name, value] : scaling->items()) names[full + name] = "rope_scaling." + name;
  }
  if (by_layer) names["rope_parameters.sliding_attention.rope_theta"] = "rope_local_base_freq";
}

// The text part of a multimodal model, with what the whole one states. Its head is tied as the
// whole states, or its class does.
Json text_part(const Json& whole, Json text) {
  constexpr const char* kTied = "tie_word_embeddings";
  if (!text.contains("eos_token_id") && whole.contains("eos_token_id")) {
    text["eos_token_id"] = whole["eos_token_id"];
  }
  constexpr const char* kQuantised = "quantization_config";
  if (whole.contains(kQuantised) && !whole[kQuantised].is_null()) {
    text[kQuantised] = whole[kQuantised];
  }
  const Json type = whole.value("model_type", Json());
  if (whole.contains(kTied)) {
    const bool either = type == "qwen2_vl" || type == "qwen2_5_vl";
    if (!either || text.value(kTied, Json()) != true) text[kTied] = whole[kTied];
  } else if (type == "gemma3" || type == "gemma4" || type == "gemma4_unified" ||
             type == "mistral3") {
    text[kTied] = true;
  }
  return text;
}

// Null overrides a default too, but for RoPE.
void set_defaults(Json& config) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return;
  const Json defaults = Json::parse(config_defaults(type->get<std::string>()));
  for (const auto& [name, value] : defaults.items()) {
    const bool rope = name.starts_with("rope_");
    if (!config.contains(name) || (rope && config[name].is_null())) config[name] = value;
  }
}

}  // namespace

Config::Config(Json values, std::string place)
    : values_(std::move(values)), place_(std::move(place)) {
  if (values_.is_object()) return;
  fail(ErrorKind::invalid_model, "{} is {}, expected an object",
       place_.empty() ? "the document" : fmt::format("'{}'", escape(place_)),
       escape(values_.dump(-1, ' ', false, Json::error_handler_t::replace), 80));
}

void Config::set_default(const std::string& name, Json value) {
  if (!has(name)) values_[name] = std::move(value);
}

const Json* Config::find(std::string_view name) const {
  const auto at = values_.find(name);
  return at == values_.end() || at->is_null() ? nullptr : &*at;
}

void Config::set_origin(std::string file, Names names) {
  origin_ = std::make_shared<const Origin>(Origin{std::move(file), std::move(names)});
}

std::string Config::path_of(std::string_view name) const {
  const std::string path = place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
  if (origin_ == nullptr) return escape(path);
  const auto own = origin_->names.find(path);
  return escape(own == origin_->names.end() ? path : own->second);
}

void Config::fail_with(const std::string& message) const {
  Error error(ErrorKind::invalid_model, message);
  if (origin_ != nullptr && !origin_->file.empty()) error.note("in " + escape(origin_->file));
  throw error;
}

void Config::wrong(std::string_view name, const Json& value, std::string_view expected) const {
  const bool finite = !value.is_number() || std::isfinite(value.get<double>());
  const std::string found = finite ? value.dump(-1, ' ', false, Json::error_handler_t::replace)
                                   : fmt::format("{}", value.get<double>());
  fail_with(fmt::format("'{}' is {}, expected {}", path_of(name), escape(found, 80), expected));
}

int64_t Config::checked(std::string_view name, const Json& value) const {
  const bool whole = value.is_number() && value.get<double>() == std::floor(value.get<double>());
  if (!whole || value.get<double>() < 0 || value.get<double>() > kMaxInteger) {
    wrong(name, value, "an integer from 0 to 2147483647");
  }
  return value.get<int64_t>();
}

int64_t Config::integer(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) fail_with(fmt::format("'{}' is missing", path_of(name)));
  return checked(name, *value);
}

int64_t Config::integer(std::string_view name, int64_t fallback) const {
  const Json* value = find(name);
  return value == nullptr ? fallback : checked(name, *value);
}

int64_t Config::count(std::string_view name, int64_t fallback) const {
  const int64_t value = integer(name, fallback);
  if (value == 0) wrong(name, value, "an integer above 0");
  return value;
}

double Config::number(std::string_view name, double fallback) const {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_number() || !std::isfinite(value->get<double>())) wrong(name, *value, "a number");
  return value->get<double>();
}

double Config::above(double least, std::string_view name, double fallback) const {
  const double value = number(name, fallback);
  const Json& found = has(name) ? *find(name) : Json(value);
  const auto held = static_cast<float>(value);
  if (value <= least) wrong(name, found, fmt::format("a number above {}", least));
  if (held == 0 || std::isinf(held)) wrong(name, found, "a number that f32 holds");
  return value;
}

double Config::above_zero(std::string_view name) const {
  if (!has(name)) fail_with(fmt::format("'{}' is missing", path_of(name)));
  return above_zero(name, 0);
}

bool Config::flag(std::string_view name, bool fallback) const {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) wrong(name, *value, "true or false");
  return value->get<bool>();
}

std::string Config::text(std::string_view name, std::string_view fallback) const {
  const Json* value = find(name);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) wrong(name, *value, "a string");
  return value->get<std::string>();
}

std::vector<double> Config::numbers(std::string_view name) const {
  std::vector<double> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_array()) wrong(name, *value, "a list of numbers");
  for (const Json& item : *value) {
    if (!item.is_number()) wrong(name, *value, "a list of numbers");
    out.push_back(item.get<double>());
  }
  return out;
}

std::vector<int64_t> Config::integers(std::string_view name) const {
  std::vector<int64_t> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_array()) wrong(name, *value, "a list of integers");
  for (const Json& item : *value) out.push_back(checked(name, item));
  return out;
}

std::vector<std::string> Config::texts(std::string_view name) const {
  std::vector<std::string> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_array()) wrong(name, *value, "a list of strings");
  for (const Json& item : *value) {
    if (!item.is_string()) wrong(name, *value, "a list of strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<int64_t> Config::tokens(std::string_view name, int64_t vocabulary) const {
  std::vector<int64_t> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  for (const Json& item : value->is_array() ? *value : Json::array({*value})) {
    if (!item.is_number_integer()) wrong(name, *value, "an integer or a list of integers");
    out.push_back(item.get<int64_t>());
    if (vocabulary > 0 && (out.back() < 0 || out.back() >= vocabulary)) {
      fail_with(fmt::format("'{}' is {}, but the vocabulary has {} tokens", path_of(name),
                            out.back(), vocabulary));
    }
  }
  return out;
}

Config Config::object(std::string_view name) const {
  const Json* value = find(name);
  const std::string place = place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
  Config out(value == nullptr ? Json::object() : *value, place);
  out.origin_ = origin_;
  return out;
}

Config read_hf_config(std::string_view json, std::string_view name) {
  Json values = parse_json(json, name, kMaxBytes);
  check(values.is_object(), ErrorKind::invalid_model, "{} is {}, expected an object", escape(name),
        values.type_name());
  for (const char* part : {"text_config", "llm_config", "language_config"}) {
    const auto text = values.find(part);
    if (text == values.end() || !text->is_object()) continue;
    values = text_part(values, *text);
    break;
  }
  // Qwen's older files have the text part's values beside those of images.
  const Json type = values.value("model_type", Json());
  if (type == "qwen2_vl" || type == "qwen2_5_vl") {
    values["model_type"] = type.get<std::string>() + "_text";
  }
  Config::Names names;
  for (const auto& [from, to] : kNames) {
    if (values.contains(to) || !values.contains(from)) continue;
    values[to] = values[from];
    names[to] = from;
  }
  set_defaults(values);
  add_rope_names(values, names);
  convert_rope(values);
  Config config(std::move(values));
  config.set_origin(std::string(name), std::move(names));
  return config;
}

}  // namespace lathe::checkpoint
