// SPDX-License-Identifier: MIT
// The objects behind the handles of the C interface.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "lathe/lathe.h"
#include "llm/model/generator.h"
#include "llm/template/chat_template.h"
#include "llm/tokenizer/stream.h"
#include "llm/tokenizer/tokenizer.h"
#include "passes/quantize_weights.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe::capi {

// The type of an input or output; lathe_value_info points into it.
struct ValueRecord {
  std::string name;
  std::string type_text;
  lathe_value_kind kind = LATHE_VALUE_TENSOR;
  lathe_element_type element = LATHE_F32;
  int rank = -1;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_texts;
  std::vector<const char*> dim_names;
  std::string denotation;
  std::vector<std::string> dim_denotation_texts;
  std::vector<const char*> dim_denotations;
  bool has_default = false;
};
using Signature = std::vector<std::unique_ptr<ValueRecord>>;
Signature inputs_of(const Program& program);
Signature outputs_of(const Program& program);
// Inputs of the model's file that have a default and are no parameters.
Signature defaults_of(const Program& program);
// Copies the fields that `info->size` covers.
void fill_info(const Signature& values, size_t index, lathe_value_info* info);
void fill_info(const ValueRecord& value, lathe_value_info* info);
std::unique_ptr<ValueRecord> record(const std::string& name, const Type& type,
                                    const ModelInfo* model);
// Describes the program's inputs and outputs again.
void refresh(lathe_program& handle);

lathe_element_type to_c(ElementType type);
ElementType from_c(lathe_element_type type);

// The object of a required pointer; `what` is the argument's name.
template <class T>
T& demand(T* handle, std::string_view what) {
  check(handle != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", what);
  return *handle;
}

// The caller's size-tagged struct in this version's layout, zero in fields beyond its size.
template <class T>
T known(const T* given) {
  T out{};
  if (given != nullptr) {
    check(given->size >= sizeof(size_t), ErrorKind::invalid_argument,
          "a struct has size {}: set it to the sizeof of its type", given->size);
    std::memcpy(&out, given, std::min(given->size, sizeof(T)));
  }
  out.size = sizeof(T);
  return out;
}

lathe_error* make_error(Error error) noexcept;

// Runs `body` and returns its exception as an error object.
template <class F>
lathe_error* guarded(F&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return make_error(error);
  } catch (const std::bad_alloc&) {
    return make_error(Error(ErrorKind::out_of_memory, "out of memory"));
  } catch (const std::exception& problem) {
    return make_error(Error(ErrorKind::internal, problem.what()));
  } catch (...) {
    return make_error(Error(ErrorKind::internal, "an unknown exception"));
  }
}

// Each fills in the functions of one part of the table.
void add_errors(lathe_api& api);
void add_programs(lathe_api& api);
void add_plans(lathe_api& api);
void add_tensors(lathe_api& api);
void add_sessions(lathe_api& api);
void add_runs(lathe_api& api);
void add_commands(lathe_api& api);
void add_program_info(lathe_api& api);
void add_program_tools(lathe_api& api);
void add_onnx_graphs(lathe_api& api);
void add_values(lathe_api& api);
void add_settings(lathe_api& api);
void add_modules(lathe_api& api);
void add_ops(lathe_api& api);
void add_custom_ops(lathe_api& api);
void add_devices(lathe_api& api);
void add_dlpack(lathe_api& api);
void add_environments(lathe_api& api);
void add_async_runs(lathe_api& api);
void add_plan_info(lathe_api& api);
void add_compiled_files(lathe_api& api);
void add_tokenizers(lathe_api& api);
void add_encodings(lathe_api& api);
void add_chat_templates(lathe_api& api);
void add_models(lathe_api& api);
void add_generators(lathe_api& api);
void add_generator_inputs(lathe_api& api);
void add_sequences(lathe_api& api);
void add_sentence_encoders(lathe_api& api);

// InvalidArgument for a token outside the vocabulary.
void check_tokens(const lathe_generator& handle, std::span<const int32_t> tokens);
// An output or state of all prompts, concatenated along the first axis; the shapes must be equal.
Tensor join_outputs(lathe_generator& handle, const std::string& name);
// A sequence by its index over all prompts, and the index of its prompt.
const std::pair<size_t, llm::Output>& output_of(lathe_generator& handle, size_t index);

// The caller's text. InvalidArgument naming the argument for bytes at NULL.
std::string_view view(lathe_text text, std::string_view what);

}  // namespace lathe::capi

namespace lathe {
class Environment;
}

struct lathe_environment {
  std::shared_ptr<lathe::Environment> environment;
};

struct lathe_error {
  lathe::Error error;
};

struct lathe_program {
  std::unique_ptr<lathe::Program> program;
  lathe::capi::Signature inputs;
  lathe::capi::Signature outputs;
  lathe::capi::Signature defaults{};  // of the file, not among the inputs
  std::vector<std::shared_ptr<lathe_module>> modules{};
  std::mutex modules_mutex{};  // guards the list and the modules' records
};

struct lathe_plan {
  std::shared_ptr<const lathe::Plan> plan;
  lathe::CompileOptions options;  // for program_save: target and compute type
  lathe::capi::Signature inputs;
  lathe::capi::Signature outputs;
};

struct lathe_tensor {
  lathe::Box box;
  const lathe_device* device = nullptr;  // where the box's tensor lies; null: the host
};

struct lathe_cancel {
  lathe::CancelToken token;
};

struct lathe_tokenizer {
  std::shared_ptr<const lathe::tokenizer::Tokenizer> tokenizer;
};

struct lathe_encoding {
  explicit lathe_encoding(lathe::tokenizer::Encoding made);
  lathe::tokenizer::Encoding encoding;
  std::vector<lathe_range> offsets;
  std::vector<std::unique_ptr<lathe_encoding>> overflowing;
};

struct lathe_decode_stream {
  lathe::tokenizer::DecodeStream stream;
  std::string piece{};  // text of the last step
};

struct lathe_stop_strings {
  lathe::tokenizer::StopStrings stops;
};

struct lathe_model_config {
  std::string folder;
  std::vector<std::function<void(nlohmann::json&)>> changes;  // of genai_config.json, in order
  lathe::MemoryFiles files;
  std::string target;
  int threads = 0;
  int64_t memory_limit = 0;
  lathe::Compute compute = lathe::Compute::as_model;
  lathe::WeightQuantisation quantize{};
  lathe_poll poll = nullptr;
  void* poll_context = nullptr;
};

namespace lathe::capi {

// The configuration's files, and its changed genai_config.json, which precedes the one on disk.
MemoryFiles files_of(const lathe_model_config& config);
// The folder or file; that of a name in a Hugging Face cache.
std::string folder_of(const lathe_model_config& config);

// A model with its threads; generators share it.
struct OpenModel {
  explicit OpenModel(const lathe_model_config& config);
  MemoryFiles files;
  ThreadPool pool;
  std::shared_ptr<const llm::Decoder> decoder;
  Folder beside{""};  // holds the tokenizer and the chat template
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;  // null: none
  std::string target;
  std::vector<int32_t> end_tokens;
  std::shared_ptr<const nlohmann::json> settings;  // genai_config.json as it was read
};

}  // namespace lathe::capi

struct lathe_model {
  std::shared_ptr<const lathe::capi::OpenModel> model;
};

struct lathe_generator_params {
  lathe::search::SearchOptions search;
  lathe_poll poll = nullptr;
  void* poll_context = nullptr;
};

struct lathe_generator {
  lathe_generator(std::shared_ptr<const lathe::capi::OpenModel> opened,
                  lathe::search::SearchOptions options, lathe_poll asked, void* context)
      : model(std::move(opened)),
        search(std::move(options)),
        poll(asked),
        poll_context(context),
        generator(model->decoder, model->tokenizer) {}
  std::shared_ptr<const lathe::capi::OpenModel> model;
  lathe::search::SearchOptions search;
  lathe_poll poll;
  void* poll_context;
  lathe::llm::Generator generator;
  bool encodes = false;         // the encoder's inputs are set for every prompt
  std::vector<size_t> lengths;  // of each prompt's first sequence before the last step
  std::vector<int32_t> next;    // tokens of the last step
  std::vector<std::pair<size_t, lathe::llm::Output>> outputs;  // empty: outdated
  std::vector<lathe_token_logprob> most_likely;                // of the last sampled token read
};

struct lathe_chat_template {
  lathe::templates::ChatTemplates templates;
  lathe::templates::Limits limits;
};
