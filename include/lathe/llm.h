// SPDX-License-Identifier: MIT
// Language models in C++, with the class names of ONNX Runtime GenAI: inline wrappers over the
// table of lathe.h.
//
//   lathe::Model model("model/");  // a folder, a .gguf file, "org/name" in a Hugging Face cache
//   lathe::Tokenizer tokenizer = model.tokenizer();
//   lathe::GeneratorParams params(model);
//   params.set("max_new_tokens", 64);
//   lathe::Generator generator(model, params);
//   generator.append_tokens(tokenizer.encode("Once upon a time"));
//   lathe::TokenizerStream stream(tokenizer);
//   while (!generator.is_done()) {
//     generator.generate_next_token();
//     std::cout << stream.step(static_cast<uint32_t>(generator.next_tokens()[0]));
//   }
//
// or, in one call: model.generate("Once upon a time", params, [](std::string_view text) { … });
//
// Errors throw lathe::Error; lathe.h lists those of each function. Any number of threads may use a
// model, a tokenizer or parameters; a generator serves one thread at a time, and any other thread
// may cancel it.
#pragma once

#include <array>
#include <cstdio>

#include "lathe/chat_template.h"
#include "lathe/tokenizer.h"

namespace lathe {
inline namespace v1 {

using TokenizerStream = DecodeStream;

namespace detail {
template <class T>
struct FreeModel {
  void operator()(T* handle) const {
    if constexpr (std::is_same_v<T, lathe_model_config>) api().model_config_free(handle);
    if constexpr (std::is_same_v<T, lathe_model>) api().model_free(handle);
    if constexpr (std::is_same_v<T, lathe_generator_params>) api().generator_params_free(handle);
    if constexpr (std::is_same_v<T, lathe_generator>) api().generator_free(handle);
  }
};
template <class T>
using ModelHandle = std::unique_ptr<T, FreeModel<T>>;

inline std::string json_text(std::string_view value) { return std::string(value); }
inline std::string json_text(const char* value) { return value; }
inline std::string json_text(bool value) { return value ? "true" : "false"; }
inline std::string json_text(int value) { return std::to_string(value); }
inline std::string json_text(int64_t value) { return std::to_string(value); }
inline std::string json_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}
}  // namespace detail

// The configuration of a model: its folder and changes to it.
class Config {
 public:
  // Without a folder, all files come from memory.
  explicit Config(const std::string& folder = "") {
    lathe_model_config* made = nullptr;
    check(api().model_config_create(folder.c_str(), &made));
    handle_.reset(made);
  }
  // Merges JSON into genai_config.json: objects are joined, other values replaced.
  void overlay(std::string_view json) {
    check(api().model_config_overlay(get(), detail::text_of(json)));
  }
  void clear_providers() { check(api().model_config_clear_providers(get())); }
  void append_provider(const std::string& name) {
    check(api().model_config_append_provider(get(), name.c_str()));
  }
  void set_provider_option(const std::string& provider, const std::string& key,
                           const std::string& value) {
    check(api().model_config_set_provider_option(get(), provider.c_str(), key.c_str(),
                                                 value.c_str()));
  }
  // Adds a file of the folder, copied; it precedes a file on disk. External data has the
  // location in the model as its name.
  void add_model_data(const std::string& name, std::span<const std::byte> bytes) {
    check(api().model_config_add_model_data(get(), name.c_str(), bytes.data(), bytes.size()));
  }
  // Adds a file without a copy; the memory must outlive every model of this configuration.
  void wrap_model_data(const std::string& name, std::span<const std::byte> bytes) {
    check(api().model_config_wrap_model_data(get(), name.c_str(), bytes.data(), bytes.size(),
                                             nullptr, nullptr));
  }
  void remove_model_data(const std::string& name) {
    check(api().model_config_remove_model_data(get(), name.c_str()));
  }
  // "cpu", "ref", or "auto" (default): the folder's providers' target, else the best available.
  void set_target(const std::string& name) {
    check(api().model_config_set_target(get(), name.c_str()));
  }
  // Compute threads; 0 (default): the folder's setting, else one per available core.
  void set_threads(int threads) { check(api().model_config_set_threads(get(), threads)); }
  // Compute type of matrix multiplications with constant weights: "as_model" (default), "int8",
  // "bf16" or "f32".
  void set_compute(const std::string& name) {
    check(api().model_config_set_compute(get(), name.c_str()));
  }
  // Quantises float weights as the model is loaded: "none" (default), "int8", "int4", with settings
  // as of `--quantize`: "int4,block=64".
  void set_quantize(const std::string& how) {
    check(api().model_config_set_quantize(get(), how.c_str()));
  }
  // Limit of a generator's KV cache and states in bytes; 0: the available memory.
  void set_memory_limit(int64_t bytes) { check(api().model_config_set_memory_limit(get(), bytes)); }
  lathe_model_config* get() const { return handle_.get(); }

 private:
  detail::ModelHandle<lathe_model_config> handle_;
};

class Model;

// Search options by the names of GenAI and Transformers, initially those of the folder.
class GeneratorParams {
 public:
  explicit GeneratorParams(const Model& model);

  // A number, a boolean or a string; a string that is valid JSON is parsed: "[7, 9]".
  // InvalidArgument for an unknown name or a value out of range.
  template <class T>
  void set(const std::string& name, T value) {
    const std::string text = detail::json_text(value);
    check(api().generator_params_set(get(), name.c_str(), detail::text_of(text)));
  }
  // The value as JSON.
  std::string get(const std::string& name) const {
    std::string out;
    check(api().generator_params_get(get(), name.c_str(), detail::append, &out));
    return out;
  }
  // Unsupported: grammars are not implemented.
  void set_guidance(const std::string& type, const std::string& data, bool fast_forward = false) {
    check(api().generator_params_set_guidance(get(), type.c_str(), data.c_str(), fast_forward));
  }
  lathe_generator_params* get() const { return handle_.get(); }

 private:
  detail::ModelHandle<lathe_generator_params> handle_;
};

class Model {
 public:
  // Io, InvalidModel, Unsupported.
  explicit Model(const std::string& folder) : Model(Config(folder)) {}
  explicit Model(const Config& config) {
    lathe_model* made = nullptr;
    check(api().model_create(config.get(), &made));
    handle_.reset(made);
  }

  std::string type() const { return api().model_type(get()); }           // "llama"
  std::string device_type() const { return api().model_device(get()); }  // "cpu"
  // Logits per token.
  int64_t vocabulary() const { return api().model_vocabulary(get()); }
  // In tokens.
  int64_t context_length() const { return api().model_context_length(get()); }
  std::span<const int32_t> end_tokens() const {
    const int32_t* tokens = nullptr;
    size_t count = 0;
    check(api().model_end_tokens(get(), &tokens, &count));
    return {tokens, count};
  }
  // Io for a folder without a tokenizer.
  Tokenizer tokenizer() const {
    lathe_tokenizer* made = nullptr;
    check(api().model_tokenizer(get(), &made));
    return Tokenizer::from_handle(made);
  }
  // InvalidArgument for a folder without a template.
  ChatTemplate chat_template() const {
    lathe_chat_template* made = nullptr;
    check(api().model_chat_template(get(), &made));
    return ChatTemplate::from_handle(made);
  }

  // Generates the answer to one prompt and passes its text to `piece` as it is generated. An
  // exception of `piece` ends the generation and is rethrown here.
  template <class Piece>
  void generate(std::string_view prompt, const GeneratorParams& params, Piece piece,
                const Cancel* cancel = nullptr) const {
    struct State {
      Piece& piece;
      std::exception_ptr failure;
    } state{piece, nullptr};
    // Exceptions must not pass through the library.
    const auto callback = [](void* context, const char* text, size_t bytes) noexcept {
      auto& own = *static_cast<State*>(context);
      try {
        own.piece(std::string_view(text, bytes));
        return 0;
      } catch (...) {
        own.failure = std::current_exception();
        return 1;
      }
    };
    lathe_error* error = api().model_generate_pieces(get(), params.get(), detail::text_of(prompt),
                                                     cancel == nullptr ? nullptr : cancel->handle(),
                                                     callback, &state);
    if (state.failure) {
      api().error_free(error);
      std::rethrow_exception(state.failure);
    }
    check(error);
  }
  std::string generate(std::string_view prompt, const GeneratorParams& params) const {
    std::string out;
    generate(prompt, params, [&](std::string_view text) { out += text; });
    return out;
  }
  lathe_model* get() const { return handle_.get(); }

 private:
  detail::ModelHandle<lathe_model> handle_;
};

inline GeneratorParams::GeneratorParams(const Model& model) {
  lathe_generator_params* made = nullptr;
  check(api().generator_params_create(model.get(), &made));
  handle_.reset(made);
}

// Generates tokens for one or more prompts, each with its own KV cache.
class Generator {
 public:
  Generator(const Model& model, const GeneratorParams& params) {
    lathe_generator* made = nullptr;
    check(api().generator_create(model.get(), params.get(), &made));
    handle_.reset(made);
  }

  // Appends tokens to a prompt; `prompt` = prompt_count() adds a prompt. InvalidArgument for a
  // token outside the vocabulary or no room in the context, OutOfMemory beyond the memory limit.
  void append_tokens(std::span<const int32_t> tokens, size_t prompt = 0) {
    check(api().generator_append_tokens(get(), prompt, tokens.data(), tokens.size()));
  }
  void append_tokens(const Encoding& encoding, size_t prompt = 0) {
    const std::vector<uint32_t> ids = encoding.ids();
    append_tokens(std::vector<int32_t>(ids.begin(), ids.end()), prompt);
  }
  // Appends to prompts 0, 1, …: a batch of any lengths.
  void append_token_sequences(std::span<const std::vector<int32_t>> sequences) {
    for (size_t i = 0; i < sequences.size(); ++i) append_tokens(sequences[i], i);
  }
  // Adds a prompt with its own options and returns its index. One batch may mix greedy and sampled
  // prompts.
  size_t add_prompt(std::span<const int32_t> tokens, const GeneratorParams& params) {
    size_t prompt = 0;
    check(api().generator_add_prompt(get(), params.get(), tokens.data(), tokens.size(), &prompt));
    return prompt;
  }
  // Sets an input of all prompts, i32 or i64 [prompts, tokens] for "input_ids", or an input of the
  // encoder with the prompts along its first axis, before the first step. The first call determines
  // the number of prompts.
  void set_model_input(const std::string& name, const Tensor& tensor) {
    check(api().generator_set_model_input(get(), name.c_str(), tensor.handle()));
  }
  void set_inputs(std::span<const std::pair<std::string, Tensor>> inputs) {
    for (const auto& [name, tensor] : inputs) set_model_input(name, tensor);
  }

  bool is_done() const { return api().generator_is_done(get()) != 0; }
  // Generates one token for every prompt that is not done. InvalidArgument if all are done;
  // Interrupted leaves the generator unchanged; an exception of the hook is rethrown.
  void generate_next_token(const Cancel* cancel = nullptr) {
    lathe_error* error =
        api().generator_generate_next_token(get(), cancel == nullptr ? nullptr : cancel->handle());
    if (error != nullptr && hook_ != nullptr && hook_->failure) {
      api().error_free(error);
      std::rethrow_exception(std::exchange(hook_->failure, nullptr));
    }
    check(error);
  }
  // The tokens of the last step, one per prompt; -1 for a prompt that was done. Valid until the
  // next call.
  std::span<const int32_t> next_tokens() const {
    const int32_t* tokens = nullptr;
    size_t count = 0;
    check(api().generator_next_tokens(get(), &tokens, &count));
    return {tokens, count};
  }
  size_t prompt_count() const { return api().generator_prompt_count(get()); }
  size_t token_count(size_t prompt = 0) const { return api().generator_token_count(get(), prompt); }
  // Adds a prompt that continues from the present state of `prompt`, with its options or `params`,
  // and returns its index. InvalidArgument for beams and several samples.
  size_t fork(size_t prompt = 0, const GeneratorParams* params = nullptr) {
    size_t made = 0;
    check(api().generator_fork(get(), prompt, params == nullptr ? nullptr : params->get(), &made));
    return made;
  }
  // Serialises a prompt's state for restore() with the same model, in any process.
  std::string save(size_t prompt = 0) const {
    std::string bytes;
    check(api().generator_save(get(), prompt, detail::append, &bytes));
    return bytes;
  }
  // Adds a saved prompt and returns its index. InvalidArgument for damaged bytes.
  size_t restore(std::string_view bytes, const GeneratorParams* params = nullptr) {
    size_t prompt = 0;
    check(api().generator_restore(get(), params == nullptr ? nullptr : params->get(), bytes.data(),
                                  bytes.size(), &prompt));
    return prompt;
  }
  // A state in the shape of the model's file, batch 1, and the names of its input and output.
  struct State {
    std::string past;
    std::string present;
    Tensor tensor;
  };
  std::vector<State> export_states(size_t prompt = 0) const {
    std::vector<State> states;
    const auto take = [](void* context, const char* past, const char* present,
                         lathe_tensor* tensor) {
      const auto text = [](const char* name) { return std::string(name == nullptr ? "" : name); };
      static_cast<std::vector<State>*>(context)->push_back(
          {text(past), text(present), Tensor(tensor)});
    };
    check(api().generator_export(get(), prompt, take, &states));
    return states;
  }
  // Drops the tokens of a prompt beyond the first `length`.
  void rewind_to(size_t length, size_t prompt = 0) {
    check(api().generator_rewind_to(get(), prompt, length));
  }

  // The next token's logits, a copy, f32 [sequences, 1, vocabulary]: one entry for each prompt, or
  // for each unfinished sequence where beams or samples have diverged.
  Tensor get_logits(const Cancel* cancel = nullptr) {
    lathe_tensor* made = nullptr;
    check(api().generator_get_logits(get(), cancel == nullptr ? nullptr : cancel->handle(), &made));
    return Tensor(made);
  }
  // Replaces the logits that the next tokens are sampled from; shape as get_logits().
  void set_logits(const Tensor& logits) {
    check(api().generator_set_logits(get(), logits.handle()));
  }
  // "input_ids": i64 [prompts, tokens]; past states as get_output(). InvalidArgument for others.
  Tensor get_input(const std::string& name) {
    lathe_tensor* made = nullptr;
    check(api().generator_get_input(get(), name.c_str(), &made));
    return Tensor(made);
  }
  // A model output by its name in the file, a copy, prompts of equal lengths along the first axis:
  // "logits" as get_logits(), present states, other outputs for the tokens of the last step.
  Tensor get_output(const std::string& name) {
    lathe_tensor* made = nullptr;
    check(api().generator_get_output(get(), name.c_str(), &made));
    return Tensor(made);
  }
  // The logits of all tokens of the last step, f32 [sequences, tokens, vocabulary].
  Tensor get_step_logits() {
    lathe_tensor* made = nullptr;
    check(api().generator_get_step_logits(get(), &made));
    return Tensor(made);
  }
  // The output of one prompt, batch 1; other prompts may have other lengths.
  Tensor get_output(const std::string& name, size_t prompt) {
    lathe_tensor* made = nullptr;
    check(api().generator_get_output_of(get(), prompt, name.c_str(), &made));
    return Tensor(made);
  }
  // Called before each token is sampled; may change the f32 [vocabulary] logits. Its exception ends
  // the step, which may be repeated.
  using Hook =
      std::function<void(size_t prompt, std::span<const int32_t> tokens, std::span<float> logits)>;
  void set_hook(Hook hook) {
    hook_ = std::make_unique<HookState>(std::move(hook));
    check(api().generator_set_hook(get(), hook_->hook ? &call_hook : nullptr, hook_.get()));
  }
  // Restricts the prompt's next token, for grammars: token t is allowed if bit t % 32 of
  // words[t / 32] is set. No words: no restriction.
  void set_token_mask(std::span<const uint32_t> words, size_t prompt = 0) {
    check(api().generator_set_token_mask(get(), prompt, words.data(), words.size()));
  }
  // Appends embeddings, float [positions, hidden], to a prompt of a model whose decoder accepts
  // them. `position_ids`: i64 [positions] or [3, positions]; null: consecutive. Prompts with equal
  // `hash` share a KV cache prefix; 0: a hash of the bytes.
  void append_embeddings(const Tensor& embeddings, size_t prompt = 0,
                         const Tensor* position_ids = nullptr, uint64_t hash = 0) {
    check(api().generator_append_embeddings(
        get(), prompt, embeddings.handle(),
        position_ids == nullptr ? nullptr : position_ids->handle(), hash));
  }
  // Unsupported: adapters are not implemented.
  void set_active_adapter(const std::string& name) {
    check(api().generator_set_active_adapter(get(), name.c_str()));
  }

  // Sequences of all prompts, best first for each prompt. Views are valid until the next call.
  size_t sequence_count() const {
    size_t count = 0;
    check(api().generator_sequence_count(get(), &count));
    return count;
  }
  struct Sequence {
    size_t prompt;                    // index of the prompt
    std::span<const int32_t> tokens;  // prompt and generated
    std::span<const int32_t> generated;
    std::string_view text;  // of the generated tokens, up to a stop string
    lathe_finish_reason reason;
    float score;  // of beam search: log-probability under the length penalty
  };
  Sequence get_sequence(size_t index = 0) const {
    auto found = detail::init<lathe_sequence>();
    check(api().generator_sequence(get(), index, &found));
    const std::span<const int32_t> tokens(found.tokens, found.token_count);
    return {found.prompt,
            tokens,
            tokens.subspan(found.prompt_tokens),
            {found.text.data, found.text.bytes},
            found.reason,
            found.score};
  }
  // Log-probabilities of the generated tokens; InvalidArgument without the option of this name.
  struct SampledToken {
    float log_probability;                         // of the token
    std::vector<lathe_token_logprob> most_likely;  // best first
  };
  std::vector<SampledToken> log_probabilities(size_t index = 0) const {
    std::vector<SampledToken> sampled;
    const size_t count = get_sequence(index).generated.size();
    for (size_t token = 0; token < count; ++token) {
      auto found = detail::init<lathe_sampled_token>();
      check(api().generator_sampled_token(get(), index, token, &found));
      sampled.push_back({found.log_probability,
                         {found.most_likely, found.most_likely + found.most_likely_count}});
    }
    return sampled;
  }
  lathe_generator* get() const { return handle_.get(); }

 private:
  struct HookState {
    explicit HookState(Hook given) : hook(std::move(given)) {}
    Hook hook;
    std::exception_ptr failure;
  };
  static int call_hook(void* context, size_t prompt, const int32_t* tokens, size_t token_count,
                       float* logits, size_t vocabulary) {
    auto& state = *static_cast<HookState*>(context);
    try {
      state.hook(prompt, {tokens, token_count}, {logits, vocabulary});
      return 0;
    } catch (...) {
      state.failure = std::current_exception();
      return 1;
    }
  }
  std::unique_ptr<HookState> hook_;
  detail::ModelHandle<lathe_generator> handle_;
};

}  // namespace v1
}  // namespace lathe
