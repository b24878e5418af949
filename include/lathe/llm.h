// SPDX-License-Identifier: MIT
// Language models in C++, by ONNX Runtime GenAI's nouns: inline wrappers over the table of lathe.h.
//
//   lathe::Model model("model/");                       // a folder with a genai_config.json
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
// Failures throw lathe::Error. Models, tokenizers and parameters may be used by any number of
// threads; a generator is one thread's at a time, and a Cancel stops it from any other.
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

// What to open, and how.
class Config {
 public:
  // Without a folder all files come from memory.
  explicit Config(const std::string& folder = "") {
    lathe_model_config* made = nullptr;
    check(api().model_config_create(folder.c_str(), &made));
    handle_.reset(made);
  }
  // JSON of the file's own form, merged into it.
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
  // A file of the folder, copied; it stands before one on disk. Models find their external data
  // here, too.
  void add_model_data(const std::string& name, std::span<const std::byte> bytes) {
    check(api().model_config_add_model_data(get(), name.c_str(), bytes.data(), bytes.size()));
  }
  // The same without a copy: memory of the caller's, which must outlive the models made of it.
  void wrap_model_data(const std::string& name, std::span<const std::byte> bytes) {
    check(api().model_config_wrap_model_data(get(), name.c_str(), bytes.data(), bytes.size(),
                                             nullptr, nullptr));
  }
  void remove_model_data(const std::string& name) {
    check(api().model_config_remove_model_data(get(), name.c_str()));
  }
  // "cpu", "ref", …; by default what suits the folder's providers.
  void set_target(const std::string& name) {
    check(api().model_config_set_target(get(), name.c_str()));
  }
  void set_threads(int threads) { check(api().model_config_set_threads(get(), threads)); }
  // What weight products compute in: "as_model" (default), "int8", "bf16" or "f32".
  void set_compute(const std::string& name) {
    check(api().model_config_set_compute(get(), name.c_str()));
  }
  // Most bytes of a generator's caches and states; 0: what the machine has.
  void set_memory_limit(int64_t bytes) { check(api().model_config_set_memory_limit(get(), bytes)); }
  lathe_model_config* get() const { return handle_.get(); }

 private:
  detail::ModelHandle<lathe_model_config> handle_;
};

class Model;

// Search options by GenAI's and Transformers' names; at first those of the folder.
class GeneratorParams {
 public:
  explicit GeneratorParams(const Model& model);

  // Numbers, booleans, and texts, which are JSON where they read as such: "[7, 9]".
  template <class T>
  void set(const std::string& name, T value) {
    const std::string text = detail::json_text(value);
    check(api().generator_params_set(get(), name.c_str(), detail::text_of(text)));
  }
  std::string get(const std::string& name) const {  // JSON
    std::string out;
    check(api().generator_params_get(get(), name.c_str(), detail::append, &out));
    return out;
  }
  void set_guidance(const std::string& type, const std::string& data, bool fast_forward = false) {
    check(api().generator_params_set_guidance(get(), type.c_str(), data.c_str(), fast_forward));
  }
  lathe_generator_params* get() const { return handle_.get(); }

 private:
  detail::ModelHandle<lathe_generator_params> handle_;
};

class Model {
 public:
  explicit Model(const std::string& folder) : Model(Config(folder)) {}
  explicit Model(const Config& config) {
    lathe_model* made = nullptr;
    check(api().model_create(config.get(), &made));
    handle_.reset(made);
  }

  std::string type() const { return api().model_type(get()); }           // "llama"
  std::string device_type() const { return api().model_device(get()); }  // its target
  int64_t vocabulary() const { return api().model_vocabulary(get()); }
  int64_t context_length() const { return api().model_context_length(get()); }
  std::span<const int32_t> end_tokens() const {
    const int32_t* tokens = nullptr;
    size_t count = 0;
    check(api().model_end_tokens(get(), &tokens, &count));
    return {tokens, count};
  }
  Tokenizer tokenizer() const {
    lathe_tokenizer* made = nullptr;
    check(api().model_tokenizer(get(), &made));
    return Tokenizer::from_handle(made);
  }
  ChatTemplate chat_template() const {
    lathe_chat_template* made = nullptr;
    check(api().model_chat_template(get(), &made));
    return ChatTemplate::from_handle(made);
  }

  // The whole answer to one prompt; `piece` gets its text as it comes. Exceptions do not pass
  // through the library: what `piece` throws ends the program.
  template <class Piece>
  void generate(std::string_view prompt, const GeneratorParams& params, Piece piece,
                const Cancel* cancel = nullptr) const {
    const auto sink = [](void* context, const char* text, size_t bytes) noexcept {
      (*static_cast<Piece*>(context))(std::string_view(text, bytes));
    };
    check(api().model_generate(get(), params.get(), detail::text_of(prompt),
                               cancel == nullptr ? nullptr : cancel->handle(), sink, &piece));
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

// Prompts in, tokens out. Every prompt keeps its own history.
class Generator {
 public:
  Generator(const Model& model, const GeneratorParams& params) {
    lathe_generator* made = nullptr;
    check(api().generator_create(model.get(), params.get(), &made));
    handle_.reset(made);
  }

  // Tokens of a prompt, or more of them: a second turn.
  void append_tokens(std::span<const int32_t> tokens, size_t prompt = 0) {
    check(api().generator_append_tokens(get(), prompt, tokens.data(), tokens.size()));
  }
  void append_tokens(const Encoding& encoding, size_t prompt = 0) {
    const std::vector<uint32_t> ids = encoding.ids();
    append_tokens(std::vector<int32_t>(ids.begin(), ids.end()), prompt);
  }
  // One prompt after another: a batch, of any lengths.
  void append_token_sequences(std::span<const std::vector<int32_t>> sequences) {
    for (size_t i = 0; i < sequences.size(); ++i) append_tokens(sequences[i], i);
  }
  // A prompt with options of its own: one batch may mix greedy and sampled ones. Gives its number.
  size_t add_prompt(std::span<const int32_t> tokens, const GeneratorParams& params) {
    size_t prompt = 0;
    check(api().generator_add_prompt(get(), params.get(), tokens.data(), tokens.size(), &prompt));
    return prompt;
  }
  // An input of all prompts at once, these along the first axis: "input_ids", or an encoder's,
  // which comes before the first step, before the tokens or after them. The first one makes the
  // prompts; later ones have as many.
  void set_model_input(const std::string& name, const Tensor& tensor) {
    check(api().generator_set_model_input(get(), name.c_str(), tensor.handle()));
  }
  void set_inputs(std::span<const std::pair<std::string, Tensor>> inputs) {
    for (const auto& [name, tensor] : inputs) set_model_input(name, tensor);
  }

  bool is_done() const { return api().generator_is_done(get()) != 0; }
  void generate_next_token(const Cancel* cancel = nullptr) {
    lathe_error* error =
        api().generator_generate_next_token(get(), cancel == nullptr ? nullptr : cancel->handle());
    if (error != nullptr && hook_ != nullptr && hook_->failure) {
      api().error_free(error);
      std::rethrow_exception(std::exchange(hook_->failure, nullptr));
    }
    check(error);
  }
  // One for each prompt, -1 where it had ended before. Valid until the next call.
  std::span<const int32_t> next_tokens() const {
    const int32_t* tokens = nullptr;
    size_t count = 0;
    check(api().generator_next_tokens(get(), &tokens, &count));
    return {tokens, count};
  }
  size_t prompt_count() const { return api().generator_prompt_count(get()); }
  size_t token_count(size_t prompt = 0) const { return api().generator_token_count(get(), prompt); }
  // Another prompt that goes on as this one stands, with its options or others; gives its number.
  size_t fork(size_t prompt = 0, const GeneratorParams* params = nullptr) {
    size_t made = 0;
    check(api().generator_fork(get(), prompt, params == nullptr ? nullptr : params->get(), &made));
    return made;
  }
  // The same by way of bytes, in this process or another with the same model.
  std::string save(size_t prompt = 0) const {
    std::string bytes;
    check(api().generator_save(get(), prompt, detail::append, &bytes));
    return bytes;
  }
  size_t restore(std::string_view bytes, const GeneratorParams* params = nullptr) {
    size_t prompt = 0;
    check(api().generator_restore(get(), params == nullptr ? nullptr : params->get(), bytes.data(),
                                  bytes.size(), &prompt));
    return prompt;
  }
  // What the model's file takes and gives for a state, and the state: batch 1.
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
  // Forgets tokens from `length` on; the next one is chosen anew.
  void rewind_to(size_t length, size_t prompt = 0) {
    check(api().generator_rewind_to(get(), prompt, length));
  }

  // f32 [rows, 1, vocabulary], of the tokens to come; and others to choose these from. A row for
  // each prompt or, where beams or samples have parted, for each sequence that goes on.
  Tensor get_logits(const Cancel* cancel = nullptr) {
    lathe_tensor* made = nullptr;
    check(api().generator_get_logits(get(), cancel == nullptr ? nullptr : cancel->handle(), &made));
    return Tensor(made);
  }
  void set_logits(const Tensor& logits) {
    check(api().generator_set_logits(get(), logits.handle()));
  }
  // "input_ids": i64 [prompts, tokens]; pasts: states, as get_output.
  Tensor get_input(const std::string& name) {
    lathe_tensor* made = nullptr;
    check(api().generator_get_input(get(), name.c_str(), &made));
    return Tensor(made);
  }
  // An output of the model by its file's name, prompts (of equal lengths) along the first axis:
  // "logits" as above; a state's present, all rows; others with the rows that the last step ran.
  Tensor get_output(const std::string& name) {
    lathe_tensor* made = nullptr;
    check(api().generator_get_output(get(), name.c_str(), &made));
    return Tensor(made);
  }
  // The same of one prompt, batch 1, whatever the others' lengths.
  Tensor get_output(const std::string& name, size_t prompt) {
    lathe_tensor* made = nullptr;
    check(api().generator_get_output_of(get(), prompt, name.c_str(), &made));
    return Tensor(made);
  }
  // Called before each choice; may change the logits. What it throws comes out of the step, which
  // may then be tried again.
  using Hook =
      std::function<void(size_t prompt, std::span<const int32_t> tokens, std::span<float> logits)>;
  void set_hook(Hook hook) {
    hook_ = std::make_unique<HookState>(std::move(hook));
    check(api().generator_set_hook(get(), hook_->hook ? &call_hook : nullptr, hook_.get()));
  }
  // Tokens that may come next, for grammars: bit t % 32 of words[t / 32] for token t. For the
  // prompt's next token only; none: all.
  void set_token_mask(std::span<const uint32_t> words, size_t prompt = 0) {
    check(api().generator_set_token_mask(get(), prompt, words.data(), words.size()));
  }
  // Rows [rows, hidden] in place of tokens, where the model's decoder takes embeddings; where they
  // stand, i64 [rows] or [3, rows] (null: one behind the other); and a hash of what they show, by
  // which later turns know them again (0: of their bytes).
  void append_embeddings(const Tensor& rows, size_t prompt = 0, const Tensor* positions = nullptr,
                         uint64_t hash = 0) {
    check(api().generator_append_embeddings(
        get(), prompt, rows.handle(), positions == nullptr ? nullptr : positions->handle(), hash));
  }
  void set_active_adapter(const std::string& name) {
    check(api().generator_set_active_adapter(get(), name.c_str()));
  }

  // Of all prompts, best first for each. Views are valid until the next call.
  size_t sequence_count() const {
    size_t count = 0;
    check(api().generator_sequence_count(get(), &count));
    return count;
  }
  struct Sequence {
    size_t prompt;                    // which one
    std::span<const int32_t> tokens;  // prompt and generated
    std::span<const int32_t> generated;
    std::string_view text;  // of the generated ones, up to a stop string
    lathe_finish_reason reason;
    float score;  // of beams
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
  // Of the sequence's generated tokens, where the option log_probabilities is set.
  struct Choice {
    float log_probability;                        // of the token
    std::vector<lathe_token_choice> most_likely;  // best first
  };
  std::vector<Choice> log_probabilities(size_t index = 0) const {
    std::vector<Choice> choices;
    const size_t count = get_sequence(index).generated.size();
    for (size_t token = 0; token < count; ++token) {
      auto found = detail::init<lathe_choice>();
      check(api().generator_choice(get(), index, token, &found));
      choices.push_back(
          {found.log_probability, {found.most_likely, found.most_likely + found.likeliest_count}});
    }
    return choices;
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
