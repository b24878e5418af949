/* SPDX-License-Identifier: MIT */
/* Lathe's C interface: load a model, compile it, run it.
 *
 *   const lathe_api* lathe = lathe_get_api(LATHE_API_VERSION);
 *   lathe_program* program = NULL;
 *   lathe_error* error = lathe->program_load("model.onnx", NULL, &program);
 *   if (error != NULL) { fprintf(stderr, "%s\n", lathe->error_message(error)); … }
 *
 * Rules for every function:
 * - The library exports one symbol, lathe_get_api. It returns a table of functions that grows only
 *   at its end: a table of version N serves callers built for every version up to N.
 * - A function that can fail returns an error, or NULL for success. The caller frees errors.
 *   Results are written through output pointers, only on success.
 * - A required pointer that is NULL is LATHE_INVALID_ARGUMENT. Any function that allocates may
 *   return LATHE_OUT_OF_MEMORY. Comments name the other errors.
 * - Structs begin with their size, so that they can grow: set it by LATHE_INIT or sizeof.
 *   Zero (or NULL) in a field selects its default.
 * - Each kind of handle has its own free function, except modules, which belong to their program,
 *   and devices. Handles may be freed in any order: a plan may outlive its program, a result its
 *   session. Freeing NULL is valid.
 * - Functions that return no error require handles that are not NULL.
 * - Strings are UTF-8 and end with a zero byte. A string that a function returns lives as long as
 *   the handle it was read from.
 * - Any number of threads may read programs, plans and tensors, and run a session without states.
 *   A session with states serves one thread at a time; a concurrent call returns
 *   LATHE_INVALID_ARGUMENT and changes nothing.
 */
#pragma once

#include "lathe/onnx_graph.h"
#include "lathe/types.h"

#if defined(_WIN32)
#define LATHE_EXPORT __declspec(dllexport)
#else
#define LATHE_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_API_VERSION 8u

typedef struct lathe_api {
  size_t size;      /* of this table in bytes */
  uint32_t version; /* of this table; at least the requested one */

  /* The library's version: "0.1.0". */
  const char* (*version_text)(void);

  /* ---- errors ---- */
  lathe_error_kind (*error_kind)(const lathe_error* error);
  /* The message and its notes, one per line: what is wrong, where, expected, got, what to do. At
   * most 64 KiB. */
  const char* (*error_message)(const lathe_error* error);
  size_t (*error_note_count)(const lathe_error* error);
  const char* (*error_note)(const lathe_error* error, size_t index); /* NULL beyond the last */
  void (*error_free)(lathe_error* error);

  /* ---- programs ---- */
  /* Loads an ONNX model or a program's text, recognised by its content. Weights stay in the mapped
   * file. `options` may be NULL. LATHE_IO, LATHE_INVALID_MODEL, LATHE_UNSUPPORTED. */
  lathe_error* (*program_load)(const char* path, const lathe_load_options* options,
                               lathe_program** program);
  /* Loads the `bytes` bytes of such a file. Errors of program_load. */
  lathe_error* (*program_load_memory)(const void* data, size_t bytes,
                                      const lathe_load_options* options, lathe_program** program);
  size_t (*program_input_count)(const lathe_program* program);
  size_t (*program_output_count)(const lathe_program* program);
  /* Fills in the fields that `info->size` covers. Pointers live as long as the program.
   * LATHE_INVALID_ARGUMENT for an index beyond the last. */
  lathe_error* (*program_input)(const lathe_program* program, size_t index, lathe_value_info* info);
  lathe_error* (*program_output)(const lathe_program* program, size_t index,
                                 lathe_value_info* info);
  /* Converts `count` pairs of an input (the past) and an output (the present) to states, which
   * sessions keep and update in place, and removes both from the inputs and outputs.
   * LATHE_INVALID_ARGUMENT for an unknown name or unequal types; the program is then unchanged. */
  lathe_error* (*program_promote_states)(lathe_program* program, const char* const* past,
                                         const char* const* present, size_t count);
  /* Passes the program's text to `sink`. */
  lathe_error* (*program_print)(const lathe_program* program, lathe_text_sink sink, void* context);
  void (*program_free)(lathe_program* program);

  /* ---- plans ---- */
  size_t (*target_count)(void);
  const char* (*target_name)(size_t index); /* NULL beyond the last */
  /* Compiles a copy of the program. `options` may be NULL. LATHE_INVALID_ARGUMENT for an unknown
   * target, LATHE_UNSUPPORTED, LATHE_INTERRUPTED. */
  lathe_error* (*plan_compile)(const lathe_program* program, const lathe_compile_options* options,
                               lathe_plan** plan);
  size_t (*plan_input_count)(const lathe_plan* plan);
  size_t (*plan_output_count)(const lathe_plan* plan);
  /* Equivalent to program_input; pointers live as long as the plan. */
  lathe_error* (*plan_input)(const lathe_plan* plan, size_t index, lathe_value_info* info);
  lathe_error* (*plan_output)(const lathe_plan* plan, size_t index, lathe_value_info* info);
  void (*plan_free)(lathe_plan* plan);

  /* ---- tensors ---- */
  /* Creates a dense, zero-filled tensor; strings are empty. `dims`: `rank` sizes, rank 0 to 16.
   * LATHE_INVALID_ARGUMENT for an unknown type or a negative size. */
  lathe_error* (*tensor_create)(lathe_element_type type, const int64_t* dims, int rank,
                                lathe_tensor** tensor);
  /* Wraps memory of the caller, which is read and written in place. `strides` in elements, NULL:
   * dense, row-major. Types below 8 bits must be dense; strings are LATHE_INVALID_ARGUMENT.
   * `release` (may be NULL) is called with `context` after the last reference is dropped. */
  lathe_error* (*tensor_wrap)(lathe_element_type type, const int64_t* dims, const int64_t* strides,
                              int rank, void* data, void (*release)(void* context), void* context,
                              lathe_tensor** tensor);
  /* Creates a sequence of `count` values, which may be freed afterwards. */
  lathe_error* (*tensor_sequence)(lathe_tensor* const* items, size_t count,
                                  lathe_tensor** sequence);
  lathe_value_kind (*tensor_kind)(const lathe_tensor* tensor);
  size_t (*tensor_item_count)(const lathe_tensor* tensor); /* of a sequence; else 0 */
  /* An item of a sequence, sharing its memory. LATHE_INVALID_ARGUMENT beyond the last. */
  lathe_error* (*tensor_item)(const lathe_tensor* tensor, size_t index, lathe_tensor** item);
  /* These return 0 or NULL for values that are not tensors. */
  lathe_element_type (*tensor_type)(const lathe_tensor* tensor);
  int (*tensor_rank)(const lathe_tensor* tensor);
  const int64_t* (*tensor_dims)(const lathe_tensor* tensor);    /* rank sizes in elements */
  const int64_t* (*tensor_strides)(const lathe_tensor* tensor); /* rank strides in elements */
  int64_t (*tensor_count)(const lathe_tensor* tensor);          /* elements */
  int64_t (*tensor_bytes)(const lathe_tensor* tensor);          /* bytes of the dense elements */
  void* (*tensor_data)(const lathe_tensor* tensor);             /* NULL for strings */
  /* Reads element `index`, row-major, of a dense string tensor. It may hold zero bytes; `bytes` may
   * be NULL. LATHE_INVALID_ARGUMENT beyond the last and for other tensors. */
  lathe_error* (*tensor_string)(const lathe_tensor* tensor, int64_t index, const char** text,
                                size_t* bytes);
  /* Copies `bytes` bytes into element `index`. Errors of tensor_string. */
  lathe_error* (*tensor_set_string)(lathe_tensor* tensor, int64_t index, const char* text,
                                    size_t bytes);
  void (*tensor_free)(lathe_tensor* tensor);

  /* ---- sessions ---- */
  /* `options` may be NULL. LATHE_INVALID_ARGUMENT for threads or memory_limit out of range. */
  lathe_error* (*session_create)(const lathe_plan* plan, const lathe_session_options* options,
                                 lathe_session** session);
  /* Runs the plan once. `inputs`: one value per input, in order. `outputs`: one entry per output; a
   * tensor in an entry receives the result and must have its element type and shape, else the entry
   * receives a new tensor. `options` may be NULL. LATHE_INVALID_ARGUMENT for a value that does not
   * fit its input, LATHE_OUT_OF_MEMORY, LATHE_INTERRUPTED, LATHE_DEVICE; a run that fails changes
   * neither states nor entries. */
  lathe_error* (*session_run)(lathe_session* session, const lathe_run_options* options,
                              lathe_tensor* const* inputs, size_t input_count,
                              lathe_tensor** outputs, size_t output_count);
  lathe_error* (*session_reset)(lathe_session* session); /* empties every state */
  /* Length of a state along its growing axis. LATHE_INVALID_ARGUMENT for an unknown state. */
  lathe_error* (*session_length)(const lathe_session* session, const char* state, int64_t* length);
  /* Truncates every growing state to its first `length` positions. LATHE_INVALID_ARGUMENT for a
   * length beyond the present one. */
  lathe_error* (*session_truncate)(lathe_session* session, int64_t length);
  lathe_error* (*session_memory)(const lathe_session* session, lathe_memory_use* use);
  void (*session_free)(lathe_session* session);

  /* ---- cancellation ---- */
  lathe_error* (*cancel_create)(lathe_cancel** cancel);
  void (*cancel_set)(lathe_cancel* cancel); /* from any thread or signal handler */
  void (*cancel_reset)(lathe_cancel* cancel);
  void (*cancel_free)(lathe_cancel* cancel);

  /* ---- the log of the process ---- */
  void (*log_set_sink)(lathe_log_sink sink, void* context); /* NULL: standard error */
  void (*log_set_level)(int level);                         /* 0 (warnings only) to 6 */

  /* ---- tokenizers (version 2) ---- */
  /* Loads a folder, or a tokenizer.json, .model, .tiktoken, vocab.json, vocab.txt or GGUF file.
   * `options` may be NULL. Any number of threads may use a tokenizer. LATHE_IO,
   * LATHE_INVALID_MODEL, LATHE_UNSUPPORTED. */
  lathe_error* (*tokenizer_load)(const char* path, const lathe_tokenizer_options* options,
                                 lathe_tokenizer** tokenizer);
  /* Loads the `bytes` bytes of such a file, which are not retained. `name`: for messages, may be
   * NULL. Errors of tokenizer_load. */
  lathe_error* (*tokenizer_load_memory)(const void* data, size_t bytes, const char* name,
                                        const lathe_tokenizer_options* options,
                                        lathe_tokenizer** tokenizer);
  size_t (*tokenizer_size)(const lathe_tokenizer* tokenizer); /* tokens, added ones included */
  /* The id of a token in the file's spelling; UINT32_MAX for an unknown token. */
  uint32_t (*tokenizer_token_to_id)(const lathe_tokenizer* tokenizer, lathe_text token);
  /* Passes the token's spelling to `sink`. LATHE_INVALID_ARGUMENT for an unknown id. */
  lathe_error* (*tokenizer_id_to_token)(const lathe_tokenizer* tokenizer, uint32_t id,
                                        lathe_text_sink sink, void* context);
  /* The token that the configuration names "bos_token", "eos_token", …; NULL if it names none. */
  const char* (*tokenizer_special_token)(const lathe_tokenizer* tokenizer, const char* name);
  /* Encodes a text, or a pair of texts. `pair` and `options` may be NULL. LATHE_INVALID_ARGUMENT
   * for invalid UTF-8. */
  lathe_error* (*tokenizer_encode)(const lathe_tokenizer* tokenizer, lathe_text text,
                                   const lathe_text* pair, const lathe_encode_options* options,
                                   lathe_encoding** encoding);
  /* Encodes `count` texts to `count` encodings; on error it writes none. Errors of
   * tokenizer_encode. */
  lathe_error* (*tokenizer_encode_batch)(const lathe_tokenizer* tokenizer, const lathe_text* texts,
                                         size_t count, const lathe_encode_options* options,
                                         lathe_encoding** encodings);
  /* Passes the text of `count` ids to `sink`; unknown ids are skipped. */
  lathe_error* (*tokenizer_decode)(const lathe_tokenizer* tokenizer, const uint32_t* ids,
                                   size_t count, int keep_special_tokens, lathe_text_sink sink,
                                   void* context);
  void (*tokenizer_free)(lathe_tokenizer* tokenizer);

  /* ---- encodings: arrays with one entry per token ---- */
  size_t (*encoding_count)(const lathe_encoding* encoding); /* tokens */
  const uint32_t* (*encoding_ids)(const lathe_encoding* encoding);
  /* These return NULL without the option with_offsets. */
  const uint32_t* (*encoding_type_ids)(const lathe_encoding* encoding);   /* 0, or 1 for the pair */
  const lathe_range* (*encoding_offsets)(const lathe_encoding* encoding); /* in characters */
  const int64_t* (*encoding_words)(const lathe_encoding* encoding);       /* -1: no word */
  const uint8_t* (*encoding_special_tokens_mask)(const lathe_encoding* encoding); /* 0 or 1 */
  const uint8_t* (*encoding_attention_mask)(const lathe_encoding* encoding);      /* 0: padding */
  /* The token's spelling; data is NULL beyond the last. */
  lathe_text (*encoding_token)(const lathe_encoding* encoding, size_t index);
  /* The truncated remainder, in pieces owned by the encoding; NULL beyond the last. */
  size_t (*encoding_overflow_count)(const lathe_encoding* encoding);
  const lathe_encoding* (*encoding_overflow)(const lathe_encoding* encoding, size_t index);
  void (*encoding_free)(lathe_encoding* encoding);

  /* ---- incremental decoding ---- */
  /* A stream holds back incomplete characters and never changes text that it has returned. */
  lathe_error* (*decode_stream_create)(const lathe_tokenizer* tokenizer, int keep_special_tokens,
                                       lathe_decode_stream** stream);
  /* Passes the text that `id` completes to `sink`; it may be empty. Unknown ids are skipped. */
  lathe_error* (*decode_stream_step)(lathe_decode_stream* stream, uint32_t id, lathe_text_sink sink,
                                     void* context);
  /* Passes the held-back text to `sink` and resets the stream. */
  lathe_error* (*decode_stream_finish)(lathe_decode_stream* stream, lathe_text_sink sink,
                                       void* context);
  void (*decode_stream_free)(lathe_decode_stream* stream);

  /* Finds the first of `count` stop strings in a text that arrives in pieces. */
  lathe_error* (*stop_strings_create)(const lathe_text* strings, size_t count,
                                      lathe_stop_strings** stops);
  /* Passes the text that precedes every possible match to `sink`; nothing after a match. */
  lathe_error* (*stop_strings_push)(lathe_stop_strings* stops, lathe_text text,
                                    lathe_text_sink sink, void* context);
  /* Ends the text: passes the held-back rest to `sink`. */
  lathe_error* (*stop_strings_finish)(lathe_stop_strings* stops, lathe_text_sink sink,
                                      void* context);
  int64_t (*stop_strings_found)(const lathe_stop_strings* stops); /* index of the match, or -1 */
  void (*stop_strings_free)(lathe_stop_strings* stops);

  /* ---- chat templates (version 3) ---- */
  /* Loads the templates of a model folder (chat_template.jinja, tokenizer_config.json, …), a GGUF
   * file or a template file. Any number of threads may render one. LATHE_IO, LATHE_INVALID_MODEL,
   * LATHE_INVALID_ARGUMENT for a folder or a GGUF file without a template. */
  lathe_error* (*chat_template_load)(const char* path, lathe_chat_template** chat);
  /* Creates one template from its source, without special tokens. LATHE_INVALID_MODEL. */
  lathe_error* (*chat_template_create)(lathe_text source, lathe_chat_template** chat);
  /* Renders a prompt. `request`: JSON, an array of messages or an object with "messages" and
   * optionally "tools", "documents", "add_generation_prompt", "continue_final_message" (true, or
   * the name of the continued field) and "template_name"; other members are variables of the
   * template. `text` receives the prompt; `ranges`, unless NULL, the characters inside
   * {% generation %}, in order. LATHE_INVALID_ARGUMENT for an invalid request, an error that the
   * template raises, and a limit of time or memory. */
  lathe_error* (*chat_template_render)(const lathe_chat_template* chat, lathe_text request,
                                       lathe_text_sink text, void* text_context,
                                       lathe_range_sink ranges, void* ranges_context);
  void (*chat_template_free)(lathe_chat_template* chat);

  /* ---- language models (version 4) ---- */
  /* `folder`: an ONNX Runtime GenAI or Hugging Face folder, a GGUF or compiled file, or a name in a
   * Hugging Face cache ("org/name", "org/name:Q4_K_M"). May be NULL if all files come from memory.
   */
  lathe_error* (*model_config_create)(const char* folder, lathe_model_config** config);
  /* Merges JSON into genai_config.json: objects are joined, other values replaced.
   * LATHE_INVALID_MODEL or LATHE_INVALID_ARGUMENT for a text that is not a JSON object. */
  lathe_error* (*model_config_overlay)(lathe_model_config* config, lathe_text json);
  lathe_error* (*model_config_clear_providers)(lathe_model_config* config);
  lathe_error* (*model_config_append_provider)(lathe_model_config* config, const char* provider);
  lathe_error* (*model_config_set_provider_option)(lathe_model_config* config, const char* provider,
                                                   const char* key, const char* value);
  /* Adds a file of the folder from memory, copied; it precedes a file on disk. External data is
   * added under the location that the model names, relative to the folder. */
  lathe_error* (*model_config_add_model_data)(lathe_model_config* config, const char* name,
                                              const void* data, size_t bytes);
  /* LATHE_INVALID_ARGUMENT for a name that was not added. */
  lathe_error* (*model_config_remove_model_data)(lathe_model_config* config, const char* name);
  /* One of target_name, or "auto" (default): the target of the folder's providers, else the best
   * one present. LATHE_INVALID_ARGUMENT for an unknown target. */
  lathe_error* (*model_config_set_target)(lathe_model_config* config, const char* target);
  /* Compute threads, up to 1024; 0 (default): the folder's setting, else one per available core. */
  lathe_error* (*model_config_set_threads)(lathe_model_config* config, int threads);
  void (*model_config_free)(lathe_model_config* config);

  /* Opens a model; the configuration is not changed. Any number of threads may use a model.
   * LATHE_IO, LATHE_INVALID_MODEL, LATHE_UNSUPPORTED. */
  lathe_error* (*model_create)(const lathe_model_config* config, lathe_model** model);
  const char* (*model_type)(const lathe_model* model);       /* "llama" */
  const char* (*model_device)(const lathe_model* model);     /* its target: "cpu" */
  int64_t (*model_vocabulary)(const lathe_model* model);     /* logits per token */
  int64_t (*model_context_length)(const lathe_model* model); /* tokens */
  /* LATHE_IO for a folder without a tokenizer. */
  lathe_error* (*model_tokenizer)(const lathe_model* model, lathe_tokenizer** tokenizer);
  /* Errors of chat_template_load. */
  lathe_error* (*model_chat_template)(const lathe_model* model, lathe_chat_template** chat);
  void (*model_free)(lathe_model* model);

  /* Search options by the names of docs/language-models.md, initially those of the folder. */
  lathe_error* (*generator_params_create)(const lathe_model* model, lathe_generator_params** out);
  /* `value`: JSON; text that is not JSON is a string. LATHE_INVALID_ARGUMENT for an unknown name or
   * a value out of range, LATHE_UNSUPPORTED. */
  lathe_error* (*generator_params_set)(lathe_generator_params* params, const char* name,
                                       lathe_text value);
  /* Passes the value as JSON to `sink`. LATHE_INVALID_ARGUMENT for an unknown name. */
  lathe_error* (*generator_params_get)(const lathe_generator_params* params, const char* name,
                                       lathe_text_sink sink, void* context);
  /* Always LATHE_UNSUPPORTED: grammars are not implemented. */
  lathe_error* (*generator_params_set_guidance)(lathe_generator_params* params, const char* type,
                                                const char* data, int fast_forward);
  void (*generator_params_free)(lathe_generator_params* params);

  /* A generator serves one thread at a time. `params` are copied; NULL: the folder's. */
  lathe_error* (*generator_create)(const lathe_model* model, const lathe_generator_params* params,
                                   lathe_generator** generator);
  /* Appends `count` > 0 tokens to a prompt; index `prompt` = number of prompts adds a prompt.
   * LATHE_INVALID_ARGUMENT for a token outside the vocabulary or no room in the context,
   * LATHE_OUT_OF_MEMORY for a KV cache beyond the memory limit. */
  lathe_error* (*generator_append_tokens)(lathe_generator* generator, size_t prompt,
                                          const int32_t* tokens, size_t count);
  /* Sets a model input by its name for all prompts. "input_ids", i32 or i64 [tokens] or [prompts,
   * tokens], appends tokens. An encoder's input has the prompts along its first axis and precedes
   * the first step. The first call determines the number of prompts; a later call with another
   * number is LATHE_INVALID_ARGUMENT, as are inputs that the runtime computes. Other inputs are
   * LATHE_UNSUPPORTED. */
  lathe_error* (*generator_set_model_input)(lathe_generator* generator, const char* name,
                                            const lathe_tensor* tensor);
  size_t (*generator_prompt_count)(const lathe_generator* generator);
  /* Tokens of a prompt's first sequence; 0 beyond the last prompt. */
  size_t (*generator_token_count)(const lathe_generator* generator, size_t prompt);
  int (*generator_is_done)(const lathe_generator* generator);
  /* Generates one token for every prompt that is not done. `cancel` may be NULL.
   * LATHE_INVALID_ARGUMENT if all prompts are done; LATHE_INTERRUPTED leaves the generator
   * unchanged. */
  lathe_error* (*generator_generate_next_token)(lathe_generator* generator,
                                                const lathe_cancel* cancel);
  /* The tokens of the last step, one for each prompt's first sequence; -1 for a prompt that was
   * done. Valid until the next call. */
  lathe_error* (*generator_next_tokens)(lathe_generator* generator, const int32_t** tokens,
                                        size_t* count);
  /* Drops the tokens of a prompt beyond the first `length`. LATHE_INVALID_ARGUMENT for a longer
   * length, beams and several samples. */
  lathe_error* (*generator_rewind_to)(lathe_generator* generator, size_t prompt, size_t length);
  /* A copy of the next token's logits, f32 [sequences, 1, vocabulary]; runs pending tokens first.
   * One entry for each prompt, or for each of its unfinished sequences where beams or samples have
   * diverged. `cancel` may be NULL. LATHE_INTERRUPTED. */
  lathe_error* (*generator_get_logits)(lathe_generator* generator, const lathe_cancel* cancel,
                                       lathe_tensor** logits);
  /* Replaces the logits that the next tokens are sampled from, f32 of the shape of
   * generator_get_logits; LATHE_INVALID_ARGUMENT for another shape. */
  lathe_error* (*generator_set_logits)(lathe_generator* generator, const lathe_tensor* logits);
  /* A copy of a model output by its name in the file, prompts along the first axis. "logits" are
   * those of generator_get_logits; past and present states are those of each prompt's first
   * sequence; other outputs cover the tokens of the last step. LATHE_INVALID_ARGUMENT for an
   * unknown name and for prompts of unequal shapes; see generator_get_output_of. */
  lathe_error* (*generator_get_output)(lathe_generator* generator, const char* name,
                                       lathe_tensor** tensor);
  lathe_error* (*generator_set_hook)(lathe_generator* generator, lathe_logits_hook hook,
                                     void* context); /* NULL: none */
  /* Sequences of all prompts, best first for each prompt; live beams until they are done. Pointers
   * live until the next call. LATHE_INVALID_ARGUMENT for an index beyond the last. */
  lathe_error* (*generator_sequence_count)(lathe_generator* generator, size_t* count);
  lathe_error* (*generator_sequence)(lathe_generator* generator, size_t index,
                                     lathe_sequence* sequence);
  /* Always LATHE_UNSUPPORTED: adapters are not implemented. */
  lathe_error* (*generator_set_active_adapter)(lathe_generator* generator, const char* name);
  void (*generator_free)(lathe_generator* generator);

  /* Generates the answer to one prompt and passes its text to `sink` piece by piece. `params` and
   * `cancel` may be NULL. LATHE_IO for a folder without a tokenizer, LATHE_INVALID_ARGUMENT for
   * beams and several samples, LATHE_INTERRUPTED. */
  lathe_error* (*model_generate)(const lathe_model* model, const lathe_generator_params* params,
                                 lathe_text prompt, const lathe_cancel* cancel,
                                 lathe_text_sink sink, void* context);

  /* ---- additions of version 5 ---- */

  /* Compute type of matrix multiplications with constant weights: "as_model" (default), "int8",
   * "bf16" or "f32". Unsuitable ones keep the model's type. LATHE_INVALID_ARGUMENT for another
   * name. */
  lathe_error* (*model_config_set_compute)(lathe_model_config* config, const char* compute);

  /* ---- additions of version 6 ---- */

  /* Limit of a generator's KV cache and states in bytes; 0 (default): the available memory. */
  lathe_error* (*model_config_set_memory_limit)(lathe_model_config* config, int64_t bytes);
  /* The tokens that end a sequence. They live as long as the model. */
  lathe_error* (*model_end_tokens)(const lathe_model* model, const int32_t** tokens, size_t* count);
  /* Adds a prompt with its own options (NULL: the generator's); one batch may mix greedy and
   * sampled prompts. Writes its index to `prompt`. Errors of generator_append_tokens. */
  lathe_error* (*generator_add_prompt)(lathe_generator* generator,
                                       const lathe_generator_params* params, const int32_t* tokens,
                                       size_t count, size_t* prompt);
  /* "input_ids": all tokens so far, i64 [prompts, tokens]; past states: as generator_get_output.
   * LATHE_INVALID_ARGUMENT for other inputs, which are not retained, and for prompts of unequal
   * lengths. */
  lathe_error* (*generator_get_input)(lathe_generator* generator, const char* name,
                                      lathe_tensor** tensor);
  /* Log-probabilities of generated token `token` of a sequence. Pointers live until the next call.
   * LATHE_INVALID_ARGUMENT for an index beyond the last and without the option
   * "log_probabilities". */
  lathe_error* (*generator_sampled_token)(lathe_generator* generator, size_t sequence, size_t token,
                                          lathe_sampled_token* sampled);
  /* Adds a prompt that continues from the present state of another, sharing its KV cache until one
   * of them writes; `params` NULL: the same options. Writes its index to `fork`.
   * LATHE_INVALID_ARGUMENT for a prompt with beams or several samples. */
  lathe_error* (*generator_fork)(lathe_generator* generator, size_t prompt,
                                 const lathe_generator_params* params, size_t* fork);
  /* Serialises a prompt's state for generator_restore with the same model, in any process. */
  lathe_error* (*generator_save)(const lathe_generator* generator, size_t prompt,
                                 lathe_text_sink sink, void* context);
  /* Adds a prompt from `bytes` bytes of generator_save. LATHE_INVALID_ARGUMENT for damaged bytes
   * and for those of another model. */
  lathe_error* (*generator_restore)(lathe_generator* generator,
                                    const lathe_generator_params* params, const void* data,
                                    size_t bytes, size_t* prompt);
  /* Passes the states of a prompt's sequence to `sink` in the shapes of the model's file, batch
   * 1. */
  lathe_error* (*generator_export)(const lathe_generator* generator, size_t prompt,
                                   lathe_state_sink sink, void* context);
  /* Restricts the prompt's next token, for grammars: token t is allowed if bit t % 32 of
   * words[t / 32] is set. `count` is (vocabulary + 31) / 32, or 0 for no restriction.
   * LATHE_INVALID_ARGUMENT for another count, an empty mask, beams and several samples; so is a
   * step in which other rules exclude every allowed token. */
  lathe_error* (*generator_set_token_mask)(lathe_generator* generator, size_t prompt,
                                           const uint32_t* words, size_t count);
  /* Appends a copy of embeddings, float [positions, hidden], to a prompt of a model whose decoder
   * accepts them; index `prompt` = number of prompts adds a prompt. `position_ids`: i64 [positions]
   * or [3, positions]; NULL: consecutive. Prompts with equal `hash` share a KV cache prefix; 0: a
   * hash of the bytes. In the prompt's tokens each embedding is a negative number.
   * LATHE_INVALID_ARGUMENT for another model or shape. */
  lathe_error* (*generator_append_embeddings)(lathe_generator* generator, size_t prompt,
                                              const lathe_tensor* embeddings,
                                              const lathe_tensor* position_ids, uint64_t hash);

  /* ---- additions of version 7 ---- */

  /* Returns generator_get_output for one prompt, batch 1; other prompts may have other lengths. */
  lathe_error* (*generator_get_output_of)(lathe_generator* generator, size_t prompt,
                                          const char* name, lathe_tensor** tensor);
  /* Like model_config_add_model_data, without a copy. `release`, which may be NULL, is called with
   * `context` after the last read; at once if this call fails. The configuration and its models
   * hold the data. */
  lathe_error* (*model_config_wrap_model_data)(lathe_model_config* config, const char* name,
                                               const void* data, size_t bytes,
                                               void (*release)(void* context), void* context);
  /* CPU time limit of one rendering in seconds; 0: the default, 0.9. Not while another thread
   * renders. LATHE_INVALID_ARGUMENT for a negative or infinite limit. */
  lathe_error* (*chat_template_set_time_limit)(lathe_chat_template* chat, double seconds);
  /* Like model_generate; a result of `callback` other than 0 ends the generation with
   * LATHE_INTERRUPTED. */
  lathe_error* (*model_generate_pieces)(const lathe_model* model,
                                        const lathe_generator_params* params, lathe_text prompt,
                                        const lathe_cancel* cancel, lathe_text_callback callback,
                                        void* context);

  /* ---- additions of version 8 ---- */

  /* A stable word for the reason: missing_file, not_protobuf, bad_graph, missing_input,
   * input_count, rank, shape, type, unknown_name, busy, wrong_device, callback; else the kind in
   * small letters: "invalid_argument". */
  const char* (*error_reason)(const lathe_error* error);
  /* Like session_run, on the caller's memory without handles. An input is `data` of `type` and
   * `dims`, or `value`; an entry without both uses the input's default, if it has one. An output
   * with `data` and `dims` must have the result's type and shape, one with `bytes` the room for it;
   * one with a tensor in `value` is that tensor. Another receives a new tensor in `value`, which
   * the caller frees. `value`s written describe the result: type, rank, dims, strides and data are
   * set to the tensor's. Entries with names may come in any order; inputs with a default and
   * outputs may be left out. Errors of session_run. */
  lathe_error* (*session_run_views)(lathe_session* session, const lathe_run_options* options,
                                    const lathe_view* inputs, size_t input_count,
                                    lathe_view* outputs, size_t output_count);
  /* Runs the program `lathe` with these arguments (without the program's name) on the standard
   * streams of the process, and writes its exit code. During the call SIGINT and SIGTERM end the
   * command as they end the program. One call at a time: another is LATHE_INVALID_ARGUMENT.
   * LATHE_UNSUPPORTED for a library without it. */
  lathe_error* (*run_command)(const char* const* arguments, size_t count, int* exit_code);
  /* What the model's file states beside its graph. */
  lathe_error* (*program_info)(const lathe_program* program, lathe_program_info* info);
  /* The author's pairs of key and value, in the file's order. LATHE_INVALID_ARGUMENT beyond the
   * last. */
  size_t (*program_metadata_count)(const lathe_program* program);
  lathe_error* (*program_metadata)(const lathe_program* program, size_t index, const char** key,
                                   const char** value);
  /* Inputs of the model's file that have a default and are no inputs of this program: load with
   * overridden_initialisers to make them inputs. Fields as of program_input. */
  size_t (*program_default_count)(const lathe_program* program);
  lathe_error* (*program_default)(const lathe_program* program, size_t index,
                                  lathe_value_info* info);
  /* Called while model_create works; NULL: none. */
  lathe_error* (*model_config_set_poll)(lathe_model_config* config, lathe_poll poll, void* context);
  /* Called while generators with these options compute and during model_generate; NULL: none. A
   * step that it ends leaves the generator unchanged. */
  lathe_error* (*generator_params_set_poll)(lathe_generator_params* params, lathe_poll poll,
                                            void* context);

  /* An optional without a value. */
  lathe_error* (*tensor_none)(lathe_tensor** tensor);
  /* Creates a map of `count` distinct keys, i64[n] or string[n], and their values, which may be
   * freed afterwards. LATHE_INVALID_ARGUMENT. */
  lathe_error* (*tensor_map)(const lathe_tensor* keys, lathe_tensor* const* values, size_t count,
                             lathe_tensor** map);
  /* The keys of a map in ascending order, and the sequence of their values.
   * LATHE_INVALID_ARGUMENT for another value. */
  lathe_error* (*tensor_map_items)(const lathe_tensor* map, lathe_tensor** keys,
                                   lathe_tensor** values);
  /* Reads all `count` elements of a dense string tensor, row-major. They live until the tensor
   * changes. LATHE_INVALID_ARGUMENT for another count. */
  lathe_error* (*tensor_strings)(const lathe_tensor* tensor, lathe_text* texts, size_t count);
  /* Copies to all elements. Errors of tensor_strings. */
  lathe_error* (*tensor_set_strings)(lathe_tensor* tensor, const lathe_text* texts, size_t count);

  /* Infers the program for given input sizes and passes each output to `sink`. It reads rank and
   * dims (-1: unknown) of a view, and type unless it is 0; without dims the input's own type is
   * used. LATHE_INVALID_ARGUMENT for sizes that contradict the inputs or each other,
   * LATHE_INVALID_MODEL for sizes that an instruction refuses. */
  lathe_error* (*program_infer)(const lathe_program* program, const lathe_view* inputs,
                                size_t count, lathe_value_sink sink, void* context);
  /* Passes the program as "text", "json" or "dot" (Graphviz) to `sink`. */
  lathe_error* (*program_write)(const lathe_program* program, const char* format,
                                lathe_text_sink sink, void* context);
  /* Compares every stage of compilation, and the plan on its target, with the program as imported,
   * on these inputs. Passes a JSON object with the stages and their values to `report` (may be
   * NULL) and writes whether all are equal within the tolerance. Errors of plan_compile and
   * session_run. */
  lathe_error* (*program_verify)(const lathe_program* program, const lathe_verify_options* options,
                                 lathe_tensor* const* inputs, size_t count, lathe_text_sink report,
                                 void* context, int* passed);

  /* The tokenizer of the configuration's folder and files, without its model. Errors of
   * model_tokenizer. */
  lathe_error* (*model_config_tokenizer)(const lathe_model_config* config,
                                         lathe_tokenizer** tokenizer);
  /* Passes a value of the model's genai_config.json, with the configuration's changes, as JSON to
   * `sink`. `path`: "search.max_length", "model.eos_token_id.0", "" for all.
   * LATHE_INVALID_ARGUMENT for a path that leads nowhere. */
  lathe_error* (*model_setting)(const lathe_model* model, const char* path, lathe_text_sink sink,
                                void* context);
  /* The provider of ONNX Runtime with this name, in any case and with or without
   * "ExecutionProvider", as configurations spell it; NULL for an unknown name. `target` (may be
   * NULL) receives the target that it names, which this build may lack. */
  const char* (*provider_find)(const char* name, const char** target);
  const char* (*provider_name)(size_t index); /* NULL beyond the last */

  /* Creates an empty program; `name` is for messages. Build its module "main", which has inputs
   * and outputs after module_return. */
  lathe_error* (*program_create)(const char* name, lathe_program** program);
  /* Declares a symbol of dims, or changes its range: least..most (-1: no limit) and sizes worth a
   * variant of their own. Types declare other symbols by naming them. LATHE_INVALID_ARGUMENT. */
  lathe_error* (*program_symbol)(lathe_program* program, const char* name, int64_t least,
                                 int64_t most, const int64_t* preferred, size_t count);
  size_t (*program_module_count)(const lathe_program* program);
  /* Modules belong to their program and are not freed. "main" is the first. */
  lathe_error* (*program_module)(lathe_program* program, size_t index, lathe_module** module);
  /* The empty module "main", or a new one for the body of an instruction, whose name gets a number
   * if it is in use. */
  lathe_error* (*module_create)(lathe_program* program, const char* name, lathe_module** module);
  const char* (*module_name)(const lathe_module* module);
  /* These add to a module that has not returned, and write the numbers of the values they define.
   * A failed call adds nothing. Types are text: "f32[batch, 2*n]", "string[*]", "seq<i64[3]>".
   * LATHE_INVALID_ARGUMENT. */
  lathe_error* (*module_parameter)(lathe_module* module, const char* name, const char* type,
                                   size_t* value);
  lathe_error* (*module_literal)(lathe_module* module, const lathe_tensor* tensor, size_t* value);
  /* Applies an op and infers the types of its results. `attributes`: a JSON object, or empty;
   * dims, types and element types are text. `bodies` have returned; what they use is among the
   * operands. `result_count`: the op's number of results. LATHE_INVALID_MODEL for operands that the
   * op refuses. */
  lathe_error* (*module_instruction)(lathe_module* module, const char* op, lathe_text attributes,
                                     const size_t* operands, size_t operand_count,
                                     lathe_module* const* bodies, size_t body_count,
                                     size_t* results, size_t result_count);
  /* Sets the results and closes the module. `names` may be NULL. */
  lathe_error* (*module_return)(lathe_module* module, const size_t* values,
                                const char* const* names, size_t count);
  /* Parameters, instructions and, if the module has results, "return", in order. Pointers live
   * until the module changes. LATHE_INVALID_ARGUMENT beyond the last. */
  size_t (*module_size)(const lathe_module* module);
  lathe_error* (*module_at)(lathe_module* module, size_t index, lathe_instruction_info* info);
  /* The tensor of a literal, sharing its memory, which must not be changed. */
  lathe_error* (*module_literal_at)(lathe_module* module, size_t index, lathe_tensor** tensor);
  size_t (*op_count)(void);
  const char* (*op_name)(size_t index); /* in alphabetical order; NULL beyond the last */
  /* Passes a JSON object to `sink`: name, doc, meaning, operands, attributes, results (-1: as
   * many as the instruction states), bodies. LATHE_INVALID_ARGUMENT for an unknown op. */
  lathe_error* (*op_describe)(const char* name, lathe_text_sink sink, void* context);
  /* Registers an op for the life of the process. LATHE_INVALID_ARGUMENT for a name in use. */
  lathe_error* (*op_register)(const lathe_op_definition* definition);

  /* Threads that sessions share; a session without one uses the process's. */
  lathe_error* (*environment_create)(const lathe_environment_options* options,
                                     lathe_environment** environment);
  void (*environment_free)(lathe_environment* environment);

  /* Devices live as long as the process. The list has those that "auto" may choose, "cpu" first. */
  size_t (*device_count)(void);
  const lathe_device* (*device_at)(size_t index); /* NULL beyond the last */
  /* Also finds "gpu", "cuda:1", "hip", LATHE_DEVICE if there is none; "sim", for tests: its memory
   * faults on the host, its work runs late. LATHE_INVALID_ARGUMENT for an unknown name. */
  lathe_error* (*device_find)(const char* name, const lathe_device** device);
  lathe_error* (*device_info)(const lathe_device* device, lathe_device_info* info);

  /* tensor_create, dense and zero-filled, in a device's memory. */
  lathe_error* (*tensor_create_on)(const lathe_device* device, lathe_element_type type,
                                   const int64_t* dims, int rank, lathe_tensor** tensor);
  /* tensor_wrap, dense, of the caller's memory on a device. */
  lathe_error* (*tensor_wrap_on)(const lathe_device* device, lathe_element_type type,
                                 const int64_t* dims, int rank, void* data,
                                 void (*release)(void* context), void* context,
                                 lathe_tensor** tensor);
  /* The device of a value. Where the host may not read it, tensor_data is the device's address, and
   * functions that must read it on the host return LATHE_INVALID_ARGUMENT, wrong_device. */
  const lathe_device* (*tensor_device)(const lathe_tensor* tensor);
  /* Copies between tensors of equal type and shape, dense where one is on a device. Without a
   * stream the copy has ended on return; with one it is enqueued, and both tensors are kept until
   * stream_synchronize. LATHE_INVALID_ARGUMENT, LATHE_DEVICE. */
  lathe_error* (*tensor_copy)(const lathe_tensor* from, lathe_tensor* to, lathe_stream* stream);
  /* A dense copy in a device's memory; NULL: the host's. */
  lathe_error* (*tensor_copy_to)(const lathe_tensor* tensor, const lathe_device* device,
                                 lathe_tensor** copy);
  /* A DLManagedTensor, or with `versioned` a DLManagedTensorVersioned (1.x), that shares the
   * memory; its receiver calls its deleter. LATHE_UNSUPPORTED for types below 8 bits and strings.
   */
  lathe_error* (*tensor_to_dlpack)(const lathe_tensor* tensor, int versioned, void** managed);
  /* Takes such a struct over: its deleter is called after the last reference is dropped. On an
   * error the caller keeps it. `versioned` 1, or 2 to accept read-only memory, which the caller
   * must not write. LATHE_INVALID_ARGUMENT, LATHE_UNSUPPORTED. */
  lathe_error* (*tensor_from_dlpack)(void* managed, int versioned, lathe_tensor** tensor);

  /* A stream runs copies in order. */
  lathe_error* (*stream_create)(const lathe_device* device, lathe_stream** stream);
  /* Waits for its work; returns the first failure. */
  lathe_error* (*stream_synchronize)(lathe_stream* stream);
  void (*stream_free)(lathe_stream* stream); /* after its work has ended */

  /* session_run_views on another thread: returns at once; `completion` is called when the run has
   * ended and `outputs` are written. Until then arrays, memory and what the options name must stay;
   * input handles and the session may be freed. A second run of a session with states while one is
   * in flight is LATHE_INVALID_ARGUMENT, busy. Errors that this function returns are not passed to
   * `completion`. */
  lathe_error* (*session_run_async)(lathe_session* session, const lathe_run_options* options,
                                    const lathe_view* inputs, size_t input_count,
                                    lathe_view* outputs, size_t output_count,
                                    lathe_completion completion, void* context);
  /* Passes a JSON object to `sink`: model, target, and of each launch name, op, kernel, detail, the
   * reason why it is no kernel of the target, whether it runs on the device. */
  lathe_error* (*plan_explain)(const lathe_plan* plan, lathe_text_sink sink, void* context);
  lathe_error* (*plan_info)(const lathe_plan* plan, lathe_plan_info* info);
  /* The logits of all tokens of the last step, f32 [sequences, tokens, vocabulary], not changed by
   * generator_set_logits. Runs appended tokens, but not a generated one; several tokens run again.
   * LATHE_INVALID_ARGUMENT for prompts whose steps have different lengths. */
  lathe_error* (*generator_get_step_logits)(lathe_generator* generator, lathe_tensor** logits);

  /* Loads an ONNX model that the caller describes (onnx_graph.h). `options` may be NULL.
   * LATHE_INVALID_ARGUMENT for a callback that fails; errors of program_load. */
  lathe_error* (*program_load_graph)(const lathe_onnx_source* source,
                                     const lathe_load_options* options, lathe_program** program);
  /* Passes for each node of such a model whether it can be imported: if the whole model cannot, by
   * itself with the types that the graph states, so state those of inner values. Nothing is
   * compiled. Errors of a source that contradicts itself as of program_load_graph. */
  lathe_error* (*program_supports)(const lathe_onnx_source* source,
                                   const lathe_load_options* options, lathe_support_sink sink,
                                   void* context);

  /* Writes a plan to a compiled file (`.lathe`): its lowered program, constants and packed weights.
   * program_load and program_load_memory read it; compiling that program for the same target and
   * machine then packs nothing. LATHE_IO; LATHE_UNSUPPORTED for a plan that was not compiled from a
   * program. */
  lathe_error* (*program_save)(const lathe_plan* plan, const char* path);
  /* Passes the bytes of such a file to `sink`, in pieces. */
  lathe_error* (*program_save_memory)(const lathe_plan* plan, lathe_text_sink sink, void* context);

  /* Quantises float weights as the model is loaded: "none" (default), "int8" or "int4", with
   * settings as of `--quantize`: "int4,block=64". LATHE_INVALID_ARGUMENT. */
  lathe_error* (*model_config_set_quantize)(lathe_model_config* config, const char* quantize);
  /* Opens an encoder of texts by a configuration's path, target, threads, compute type and
   * quantisation. Any number of threads may use it. Errors of model_create;
   * LATHE_INVALID_ARGUMENT for a decoder. */
  lathe_error* (*sentence_encoder_create)(const lathe_model_config* config,
                                          lathe_sentence_encoder** encoder);
  int64_t (*sentence_encoder_size)(const lathe_sentence_encoder* encoder); /* of an embedding */
  /* Longer texts are truncated. */
  int64_t (*sentence_encoder_max_tokens)(const lathe_sentence_encoder* encoder);
  /* Passes a prompt of the model to `sink`; the default one, or nothing, for NULL and "".
   * LATHE_INVALID_ARGUMENT for unknown names. */
  lathe_error* (*sentence_encoder_prompt)(const lathe_sentence_encoder* encoder, const char* name,
                                          lathe_text_sink sink, void* context);
  /* The embeddings of `count` texts, f32 [count, size]. `prompt` precedes every text. `cancel` may
   * be NULL. LATHE_INVALID_ARGUMENT for text that is not UTF-8, LATHE_INTERRUPTED. */
  lathe_error* (*sentence_encoder_encode)(const lathe_sentence_encoder* encoder,
                                          const lathe_text* texts, size_t count, lathe_text prompt,
                                          const lathe_cancel* cancel, lathe_tensor** embeddings);
  void (*sentence_encoder_free)(lathe_sentence_encoder* encoder);
  /* The driver's handle of a stream, CUstream or hipStream_t, for work of others that copies and
   * runs on it shall follow; NULL where the device has none. Small copies are gathered: they leave
   * with the next run, event, synchronisation or call of this function, so call it before each
   * piece of work that shall follow them. */
  void* (*stream_native)(const lathe_stream* stream);
} lathe_api;

/* The table of functions; NULL if the library is older than `version`. */
LATHE_EXPORT const lathe_api* lathe_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif
