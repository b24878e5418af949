// SPDX-License-Identifier: MIT
#include "import/checkpoint/checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_map.h"
#include "base/in_file.h"
#include "base/json.h"
#include "base/lfs_pointer.h"
#include "base/log.h"
#include "import/checkpoint/files/gguf_split.h"
#include "import/checkpoint/gguf_config.h"
#include "import/checkpoint/quantised/quantiser.h"

namespace lathe::checkpoint {
namespace {

constexpr std::string_view kConfig = "config.json";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t end = 0; (end = text.find(from, at)) != std::string::npos; at = end + from.size()) {
    out.append(text, at, end - at).append(to);
  }
  text = out.append(text, at);
}

// The text part of a multimodal model.
constexpr std::pair<std::string_view, std::string_view> kTextPart[] = {
    {"model.language_model.", "model."},
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."}};

void rename_tensors(const Architecture& architecture, Weights& weights) {
  std::vector<std::pair<std::string, std::string>> renames;
  for (const auto& [name, tensor] : weights.all()) {
    std::string to = name;
    // Files of GPT-2 omit the prefix.
    if (architecture.type == "gpt2" && !name.starts_with("transformer.") &&
        !name.starts_with("lm_head.")) {
      to = "transformer." + name;
    }
    for (const auto& [from, part] : kTextPart) replace_all(to, from, part);
    for (const auto& [from, part] : architecture.renames) replace_all(to, from, part);
    if (to != name) renames.emplace_back(name, to);
  }
  for (const auto& [from, to] : renames) weights.rename(from, to);
}

// GPTQ files of old, beside the configuration.
void read_old_quantization(const Folder& folder, Config& config) {
  constexpr std::string_view kName = "quantize_config.json";
  constexpr size_t kMaxBytes = size_t{1} << 20;
  if (!folder.has(kName)) return;
  nlohmann::json values = parse_json(folder.open(kName).text, folder.place(kName), kMaxBytes);
  if (!values.is_object()) return;
  if (!values.contains("quant_method")) values["quant_method"] = "gptq";
  config.set("quantization_config", std::move(values));
}

MemoryFile map_file(const std::string& path) {
  const auto map = FileMap::open(path);
  check_fetched(map->text(), path);
  return {map->text(), map};
}

}  // namespace

bool is_hf_folder(const Folder& folder) {
  if (folder.has("genai_config.json") || !folder.has(kConfig)) return false;
  return folder.open(kConfig).text.find("\"model_type\"") != std::string_view::npos;
}

bool is_gguf_file(const std::string& path) {
  if (!file_exists(path) || is_folder(path)) return false;
  return path.ends_with(".gguf") || FileMap::open(path)->text().starts_with("GGUF");
}

Checkpoint open_hf_folder(const Folder& folder) {
  Checkpoint out;
  out.place = folder.place();
  const std::string place = folder.place(kConfig);
  out.config = in_file(place, [&] {
    Config config = read_hf_config(folder.open(kConfig).text, place);
    out.architecture = &find_architecture(config.text("model_type"));
    if (!config.has("quantization_config")) read_old_quantization(folder, config);
    check_quantiser(config);
    return config;
  });
  out.weights = Weights::open_safetensors(folder);
  in_file(folder.place(), [&] { join_quantised(out.config, out.weights); });
  rename_tensors(*out.architecture, out.weights);
  return out;
}

Checkpoint open_gguf(const std::string& path) {
  Checkpoint out;
  out.place = path;
  out.gguf = map_file(path);
  in_file(path, [&] {
    const GgufFile gguf(out.gguf.text);
    const std::vector<std::string> later = later_parts(gguf, path);
    out.config = read_gguf_config(gguf);
    out.architecture = &find_architecture(out.config.text("model_type"));
    out.weights.add_gguf(gguf, out.gguf, path);
    for (size_t i = 0; i < later.size(); ++i) {
      const MemoryFile file = map_file(later[i]);
      in_file(later[i], [&] {
        const GgufFile part(file.text);
        check_part(part, i + 2, later.size() + 1);
        out.weights.add_gguf(part, file, later[i]);
      });
    }
    const auto tensors = gguf.integer("split.tensors.count");
    check(later.empty() || !tensors || *tensors == out.weights.all().size(),
          ErrorKind::invalid_model, "the {} parts have {} tensors, expected {}", later.size() + 1,
          out.weights.all().size(), tensors.value_or(0));
  });
  out.rope_divisors = in_file(path, [&] {
    rename_gguf_tensors(out.config, out.weights);
    return read_rope_factors(out.config, out.weights);
  });
  return out;
}

void check_decoder(const Checkpoint& checkpoint) {
  check(!checkpoint.architecture->encoder, ErrorKind::unsupported,
        "'{}' has a model of the architecture '{}', an encoder, which generates no text: use "
        "'lathe embed'",
        escape(checkpoint.place), checkpoint.architecture->type);
}

std::unique_ptr<Program> import_checkpoint(const Checkpoint& checkpoint) {
  check_decoder(checkpoint);
  return in_file(checkpoint.place, [&] {
    DecoderStyle style = common_style(checkpoint.config, checkpoint.weights);
    checkpoint.architecture->adapt(checkpoint.config, checkpoint.weights, style);
    if (checkpoint.config.flag("gguf", false)) {
      style.interleaved = checkpoint.config.flag("interleaved_rope", false);
      style.gguf = true;
      style.norm.plus_one = false;
      style.rope_divisors = checkpoint.rope_divisors;
      style.ignored.emplace_back("rope_f");
    }
    if (style.tied) style.ignored.emplace_back("lm_head.");
    if (style.context < style.stated_context) {
      log_warning(
          fmt::format("the context is {} of the {} tokens that '{}' states, whose tables of "
                      "RoPE would take too much memory beside its weights",
                      style.context, style.stated_context, escape(checkpoint.place)));
    }
    return build_decoder(checkpoint.config, style, checkpoint.weights, checkpoint.place);
  });
}

}  // namespace lathe::checkpoint
