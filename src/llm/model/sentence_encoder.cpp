// SPDX-License-Identifier: MIT
#include "llm/model/sentence_encoder.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/file_map.h"
#include "base/json.h"
#include "import/checkpoint/encoder.h"
#include "import/checkpoint/sentence_head.h"
#include "llm/model/checkpoint_config.h"
#include "llm/model/pool_tokens.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::llm {
namespace {

// Tokens of a run: its activations stay in the caches.
constexpr int64_t kTokensPerRun = 2048;

std::shared_ptr<const Plan> plan_of(std::unique_ptr<Program> program,
                                    const RunnerOptions& options) {
  CompileOptions how;
  how.target = options.target;
  how.compute = options.compute;
  how.pool = options.pool;
  how.passes = options.passes;
  how.watch_kernels = options.watch_kernels;
  return compile_by(options, std::move(program), how);
}

std::unique_ptr<Session> session_of(std::shared_ptr<const Plan> plan,
                                    const RunnerOptions& options) {
  SessionOptions how;
  how.pool = options.pool;
  return std::make_unique<Session>(std::move(plan), how);
}

std::unique_ptr<Program> head_of(const Folder& folder, const SentenceConfig& config) {
  std::vector<checkpoint::DenseLayer> layers;
  for (const DenseModule& dense : config.dense) {
    layers.push_back({folder.below(dense.folder), dense.inputs, dense.outputs, dense.activation});
  }
  return checkpoint::import_sentence_head(layers);
}

// As str.strip() of Python, which Sentence Transformers calls.
bool is_stripped(char32_t character) {
  return tokenizer::unicode::is_white_space(character) || (character >= 0x1C && character <= 0x1F);
}

std::string_view stripped(std::string_view text) {
  namespace unicode = tokenizer::unicode;
  size_t begin = 0;
  for (size_t at = 0; at < text.size() && is_stripped(unicode::next(text, at));) begin = at;
  size_t end = text.size();
  while (end > begin) {
    const size_t last = unicode::previous(text, end);
    size_t at = last;
    if (!is_stripped(unicode::next(text, at))) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

SentenceEncoder::SentenceEncoder(const std::string& path, const SentenceEncoderOptions& options)
    : pool_(options.runner.pool) {
  const bool gguf = checkpoint::is_gguf_file(path);
  check(gguf || is_folder(path), ErrorKind::io, "'{}' is neither a folder nor a GGUF file",
        escape(path));
  const Folder folder(gguf ? "" : path);
  if (!gguf) config_ = read_sentence_config(folder);
  const Folder own = gguf ? folder : folder.below(config_.transformer);
  check(gguf || checkpoint::is_hf_folder(own), ErrorKind::io,
        "'{}' has no config.json with a 'model_type'", escape(own.place()));
  const checkpoint::Checkpoint model =
      gguf ? checkpoint::open_gguf(path) : checkpoint::open_hf_folder(own);
  const checkpoint::EncoderSizes sizes = checkpoint::encoder_sizes(model);
  if (gguf) config_.pooling = {gguf_pooling(model.config.integer("pooling_type", 1))};
  hidden_ = sizes.hidden;
  first_position_ = sizes.first_position;
  vocabulary_ = sizes.vocabulary;
  max_tokens_ = config_.max_tokens > 0 ? std::min(config_.max_tokens, sizes.tokens) : sizes.tokens;
  const Folder beside = gguf                            ? *gguf_tokenizer_folder(path)
                        : tokenizer::has_tokenizer(own) ? own
                                                        : folder;
  check(tokenizer::has_tokenizer(beside), ErrorKind::io, "'{}' has no tokenizer", escape(path));
  tokenizer_ = tokenizer::load_tokenizer(beside);
  if (config_.lower_case)
    lower_case_ = tokenizer::make_normalizer(nlohmann::json::object({{"type", "Lowercase"}}));
  std::unique_ptr<Program> program = checkpoint::import_encoder(model);
  check_quantised(quantize_weights(*program, options.quantize, ""), options.quantize, path);
  plan_ = plan_of(std::move(program), options.runner);
  session_ = session_of(plan_, options.runner);
  size_ = pooled_size();
  if (config_.dense.empty()) return;
  check(config_.dense.front().inputs == size_, ErrorKind::invalid_model,
        "'in_features' of '{}' is {}, expected {}", escape(config_.dense.front().folder),
        config_.dense.front().inputs, size_);
  head_ = session_of(plan_of(head_of(folder, config_), options.runner), options.runner);
  size_ = config_.dense.back().outputs;
}

const std::string& SentenceEncoder::prompt(std::string_view name) const {
  static const std::string kNone;
  if (name.empty()) {
    return config_.default_prompt.empty() ? kNone : config_.prompts.at(config_.default_prompt);
  }
  const auto at = config_.prompts.find(std::string(name));
  std::vector<std::string_view> known;
  for (const auto& [other, text] : config_.prompts) known.push_back(other);
  check(at != config_.prompts.end(), ErrorKind::invalid_argument,
        "the model has no prompt '{}'; it has {}", escape(name),
        known.empty() ? "none" : escape(fmt::format("{}", fmt::join(known, ", "))));
  return at->second;
}

// Keeps the special tokens at the end.
void SentenceEncoder::truncate(std::string_view text, std::vector<uint32_t>& ids) const {
  tokenizer::EncodeOptions options;
  options.detailed = true;
  options.truncate_and_pad = false;
  const std::vector<uint8_t> special = tokenizer_->encode(text, options).special_tokens_mask;
  size_t tail = 0;
  while (tail < special.size() && special[special.size() - 1 - tail] != 0) ++tail;
  const auto limit = static_cast<size_t>(max_tokens_);
  tail = std::min(tail, limit);
  ids.erase(ids.begin() + static_cast<ptrdiff_t>(limit - tail),
            ids.end() - static_cast<ptrdiff_t>(tail));
}

std::string SentenceEncoder::prepared(std::string_view text) const {
  // The tokenizer names the place of ill-formed UTF-8.
  if (tokenizer::unicode::find_invalid_utf8(text) != std::string_view::npos) {
    return std::string(text);
  }
  tokenizer::AlignedText out(stripped(text), false);
  if (lower_case_ != nullptr) lower_case_->apply(out);
  return std::string(out.view());
}

std::vector<uint32_t> SentenceEncoder::unpooled(std::string_view prompt) const {
  if (prompt.empty() || config_.pools_prompt) return {};
  tokenizer::EncodeOptions options;
  options.detailed = true;
  options.truncate_and_pad = false;
  tokenizer::Encoding own = tokenizer_->encode(prepared(prompt), options);
  while (!own.ids.empty() && own.special_tokens_mask[own.ids.size() - 1] != 0) own.ids.pop_back();
  return std::move(own.ids);
}

std::vector<SentenceEncoder::Text> SentenceEncoder::tokenise(
    std::span<const std::string_view> texts, std::string_view prompt) const {
  tokenizer::EncodeOptions options;
  options.truncate_and_pad = false;
  const std::vector<uint32_t> skipped = unpooled(prompt);
  std::vector<Text> out(texts.size());
  parallel_for(pool_, std::ssize(texts), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        const std::string text = prepared(std::string(prompt) + std::string(texts[i]));
        out[i].ids = tokenizer_->encode(text, options).ids;
        if (std::ssize(out[i].ids) > max_tokens_) truncate(text, out[i].ids);
        // The prompt's last tokens may differ before a text: a token of both is the text's.
        out[i].prompt = std::ranges::mismatch(out[i].ids, skipped).in1 - out[i].ids.begin();
      } catch (Error& error) {
        error.note(fmt::format("in text {}", i + 1));
        throw;
      }
    }
  });
  return out;
}

void SentenceEncoder::run(std::span<const Text> texts, float* pooled,
                          const RunOptions& options) const {
  Tensor bounds(ElementType::i32, {std::ssize(texts) + 1});
  bounds.as<int32_t>()[0] = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    bounds.as<int32_t>()[i + 1] =
        bounds.as<int32_t>()[i] + static_cast<int32_t>(texts[i].ids.size());
  }
  const int64_t tokens = bounds.as<int32_t>()[texts.size()];
  const Tensor ids(ElementType::i64, {1, tokens});
  const Tensor positions(ElementType::i64, {1, tokens});
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t begin = bounds.as<int32_t>()[i];
    std::ranges::copy(texts[i].ids, ids.as<int64_t>() + begin);
    int64_t* own = positions.as<int64_t>() + begin;
    std::iota(own, own + texts[i].ids.size(), first_position_);
  }
  std::vector<Box> inputs;
  for (const auto& parameter : plan_->program->main().parameters()) {
    inputs.emplace_back(parameter->name() == "input_ids"      ? ids
                        : parameter->name() == "position_ids" ? positions
                                                              : bounds);
  }
  const std::vector<Box> results = session_->run(inputs, options);
  const Tensor states = results.front().tensor().dense();
  parallel_for(pool_, std::ssize(texts), 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = bounds.as<int32_t>()[i];
      const int64_t prompt = texts[static_cast<size_t>(i)].prompt;
      const float* from = states.as<float>() + first * hidden_;
      float* to = pooled + i * pooled_size();
      for (const Pooling pooling : config_.pooling) {
        pool_tokens(pooling, from, bounds.as<int32_t>()[i + 1] - first, prompt, hidden_, to);
        to += hidden_;
      }
    }
  });
}

Tensor SentenceEncoder::encode(std::span<const std::string_view> texts, std::string_view prompt,
                               const CancelToken* cancel) const {
  RunOptions options;
  options.cancel = cancel;
  return embed(tokenise(texts, prompt), options);
}

Tensor SentenceEncoder::encode_tokens(std::span<const std::vector<uint32_t>> texts,
                                      const RunOptions& options) const {
  std::vector<Text> all;
  for (const std::vector<uint32_t>& ids : texts) {
    check(std::ssize(ids) <= max_tokens_, ErrorKind::invalid_argument,
          "text {} has {} tokens, expected at most {}", all.size() + 1, ids.size(), max_tokens_);
    all.push_back({ids, 0});
  }
  return embed(all, options);
}

Tensor SentenceEncoder::embed(std::span<const Text> all, const RunOptions& options) const {
  Tensor pooled(ElementType::f32, {std::ssize(all), pooled_size()});
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    int64_t tokens = 0;
    for (; end < all.size() && (end == begin || tokens + std::ssize(all[end].ids) <= kTokensPerRun);
         ++end) {
      tokens += std::ssize(all[end].ids);
    }
    run(all.subspan(begin, end - begin),
        pooled.as<float>() + static_cast<int64_t>(begin) * pooled_size(), options);
  }
  Tensor embeddings = pooled;
  if (head_ != nullptr) {
    const Box input(pooled);
    embeddings = head_->run({&input, 1}, options).front().tensor().dense();
  }
  for (int64_t i = 0; config_.normalise && i < std::ssize(all); ++i) {
    normalise(embeddings.as<float>() + i * size_, size_);
  }
  return embeddings;
}

}  // namespace lathe::llm
