// SPDX-License-Identifier: MIT
#include "llm/model/sentence_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "import/checkpoint/config.h"

namespace lathe::llm {
namespace {

using checkpoint::Config;
using Json = nlohmann::json;

constexpr size_t kMaxDocumentBytes = size_t{4} << 20;
constexpr size_t kMaxModules = 16;

constexpr std::array<std::pair<Pooling, const char*>, 6> kPoolingFlags = {
    {{Pooling::cls, "pooling_mode_cls_token"},
     {Pooling::max, "pooling_mode_max_tokens"},
     {Pooling::mean, "pooling_mode_mean_tokens"},
     {Pooling::mean_sqrt_length, "pooling_mode_mean_sqrt_len_tokens"},
     {Pooling::weighted_mean, "pooling_mode_weightedmean_tokens"},
     {Pooling::last_token, "pooling_mode_lasttoken"}}};

// In the order in which Sentence Transformers looks for their files.
constexpr std::array kConfigKinds = {"bert",   "roberta",     "distilbert", "camembert",
                                     "albert", "xlm-roberta", "xlnet"};

Json read_document(const Folder& folder, const std::string& name) {
  return parse_json(folder.open(name).text, folder.place(name), kMaxDocumentBytes);
}

// Calls `use` with the file's values; errors name the file. False if the file is missing.
template <class Use>
bool with_file(const Folder& folder, const std::string& name, Use use) {
  if (!folder.has(name)) return false;
  try {
    use(Config(read_document(folder, name)));
  } catch (Error& error) {
    error.note(fmt::format("in {}", escape(folder.place(name))));
    throw;
  }
  return true;
}

void read_pooling(const Folder& folder, const std::string& path, SentenceConfig& out) {
  const bool found = with_file(folder, path + "/config.json", [&](const Config& config) {
    out.pooling.clear();
    for (const auto& [pooling, name] : kPoolingFlags) {
      if (config.flag(name, false)) out.pooling.push_back(pooling);
    }
    check(!out.pooling.empty(), ErrorKind::unsupported,
          "none of the known kinds of pooling is set, such as '{}'", kPoolingFlags[2].second);
    out.pools_prompt = config.flag("include_prompt", true);
  });
  check(found, ErrorKind::io, "'{}' has no '{}/config.json'", escape(folder.place()), escape(path));
}

// Modules behind Pooling change the embedding, not the states of tokens.
void check_names(const Config& config) {
  constexpr const char* kEmbedding = "sentence_embedding";
  for (const char* name : {"module_input_name", "module_output_name"}) {
    const std::string value = config.text(name, kEmbedding);
    check(value == kEmbedding, ErrorKind::unsupported, "'{}' is '{}', expected {}", name,
          escape(value), kEmbedding);
  }
}

void read_dense(const Folder& folder, const std::string& path, SentenceConfig& out) {
  const bool found = with_file(folder, path + "/config.json", [&](const Config& config) {
    DenseModule dense{path, config.integer("in_features"), config.integer("out_features"), ""};
    const std::string name = config.text("activation_function", "torch.nn.modules.activation.Tanh");
    const std::string type = name.substr(name.rfind('.') + 1);
    constexpr std::pair<std::string_view, const char*> kKnown[] = {
        {"Identity", ""}, {"Tanh", "tanh"}, {"ReLU", "relu"}, {"GELU", "gelu"}, {"SiLU", "silu"}};
    const auto* known = std::ranges::find(kKnown, type, [](const auto& one) { return one.first; });
    check(known != std::end(kKnown), ErrorKind::unsupported,
          "'activation_function' is '{}', expected Identity, Tanh, ReLU, GELU or SiLU",
          escape(name));
    dense.activation = known->second;
    check_names(config);
    out.dense.push_back(dense);
  });
  check(found, ErrorKind::io, "'{}' has no '{}/config.json'", escape(folder.place()), escape(path));
}

constexpr std::array<std::string_view, 4> kModuleTypes = {"Transformer", "Pooling", "Dense",
                                                          "Normalize"};

// `last`: the type of the module before, -1 for none. Returns this module's.
int read_module(const Folder& folder, const Config& module, int last, SentenceConfig& out) {
  const std::string type = module.text("type");
  const std::string path = plain_name(module.text("path"));
  check(!path.starts_with('/') && !path.starts_with("..") && path.find("/..") == std::string::npos,
        ErrorKind::invalid_model, "a module has the path '{}', expected one in its folder",
        escape(path));
  const std::string name = type.substr(type.rfind('.') + 1);
  const auto kind = static_cast<int>(std::ranges::find(kModuleTypes, name) - kModuleTypes.begin());
  check(kind < std::ssize(kModuleTypes), ErrorKind::unsupported,
        "modules of type '{}' are not supported; known are Transformer, Pooling, Dense and "
        "Normalize",
        escape(type));
  const bool repeats = kind == last && name == "Dense";
  const bool follows = kind < 2 ? kind == last + 1 : last >= 1 && kind > last;
  check(follows || repeats, ErrorKind::unsupported,
        "module '{}' is {} {}, expected Transformer, Pooling, any number of Dense, Normalize",
        escape(path), name,
        last < 0 ? "at the front"
                 : fmt::format("behind {}", kModuleTypes[static_cast<size_t>(last)]));
  if (name == "Transformer") {
    out.transformer = path == "." ? "" : path;
  } else if (name == "Pooling") {
    read_pooling(folder, path, out);
  } else if (name == "Dense") {
    read_dense(folder, path, out);
  } else {
    out.normalise = true;
  }
  return kind;
}

}  // namespace

SentenceConfig read_sentence_config(const Folder& folder) {
  SentenceConfig out;
  constexpr const char* kModules = "modules.json";
  if (folder.has(kModules)) {
    try {
      const Json modules = read_document(folder, kModules);
      check(modules.is_array() && modules.size() <= kMaxModules, ErrorKind::invalid_model,
            "the document is {} of {}, expected an array of at most {} modules",
            modules.type_name(), modules.size(), kMaxModules);
      int last = -1;
      for (const Json& module : modules) last = read_module(folder, Config(module), last, out);
      check(last >= 1, ErrorKind::unsupported, "none of the {} modules is Pooling", modules.size());
    } catch (Error& error) {
      error.note(fmt::format("in {}", escape(folder.place(kModules))));
      throw;
    }
  }
  for (const char* kind : kConfigKinds) {
    const bool found =
        with_file(folder.below(out.transformer), fmt::format("sentence_{}_config.json", kind),
                  [&](const Config& config) {
                    out.max_tokens = config.integer("max_seq_length", 0);
                    out.lower_case = config.flag("do_lower_case", false);
                  });
    if (found) break;
  }
  with_file(folder, "config_sentence_transformers.json", [&](const Config& config) {
    const Config prompts = config.object("prompts");
    for (const auto& [name, text] : prompts.values().items()) {
      out.prompts[name] = prompts.text(name);
    }
    out.default_prompt = config.text("default_prompt_name");
    check(out.default_prompt.empty() || out.prompts.contains(out.default_prompt),
          ErrorKind::invalid_model, "'default_prompt_name' is '{}', which is not in 'prompts'",
          escape(out.default_prompt));
  });
  return out;
}

Pooling gguf_pooling(int64_t type) {
  constexpr std::array kTypes = {Pooling::mean, Pooling::cls, Pooling::last_token};
  check(type >= 1 && type <= std::ssize(kTypes), ErrorKind::unsupported,
        "'pooling_type' is {}, expected 1 (mean), 2 (CLS) or 3 (last token)", type);
  return kTypes[static_cast<size_t>(type - 1)];
}

}  // namespace lathe::llm
