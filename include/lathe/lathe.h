/* SPDX-License-Identifier: MIT */
/* Lathe's C interface: load a model, compile it, run it.
 *
 *   const lathe_api* lathe = lathe_get_api(LATHE_API_VERSION);
 *   lathe_program* program = NULL;
 *   lathe_error* error = lathe->program_load("model.onnx", NULL, &program);
 *   if (error != NULL) { fprintf(stderr, "%s\n", lathe->error_message(error)); … }
 *
 * Rules that hold everywhere:
 * - One symbol is exported, lathe_get_api. It gives a table of functions, which only ever grows at
 *   its end: a table of version N serves callers built for any version up to N.
 * - Functions that can fail return an error, or NULL. The caller frees errors. Results are written
 *   through the last pointer, only on success.
 * - Structs begin with their size, so that they can grow: set it by LATHE_INIT or sizeof.
 *   Zero (or NULL) in a field means its default.
 * - Handles are freed by the function of their name, in any order: a plan does not need its
 * program, a result does not need its session. NULL may be freed.
 * - Functions that return no error want handles that are not NULL.
 * - Strings are UTF-8 and end with a zero byte. Those that functions return live as long as the
 *   handle that they were asked of.
 * - Programs, plans and tensors may be read by any number of threads. A session is one thread's at
 * a time; a second one gets LATHE_INVALID_ARGUMENT, and no harm is done.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define LATHE_EXPORT __declspec(dllexport)
#else
#define LATHE_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_API_VERSION 7u

/* Zeroes a struct of this interface and sets its size: lathe_run_options o =
 * LATHE_INIT(lathe_run_options); (C++: lathe_run_options o{}; o.size = sizeof o;) */
#define LATHE_INIT(type) {.size = sizeof(type)}

typedef struct lathe_error lathe_error;
typedef struct lathe_program lathe_program;
typedef struct lathe_plan lathe_plan;
typedef struct lathe_session lathe_session;
typedef struct lathe_tensor lathe_tensor;
typedef struct lathe_cancel lathe_cancel;
typedef struct lathe_tokenizer lathe_tokenizer;
typedef struct lathe_encoding lathe_encoding;
typedef struct lathe_decode_stream lathe_decode_stream;
typedef struct lathe_stop_strings lathe_stop_strings;
typedef struct lathe_chat_template lathe_chat_template;
typedef struct lathe_model_config lathe_model_config;
typedef struct lathe_model lathe_model;
typedef struct lathe_generator_params lathe_generator_params;
typedef struct lathe_generator lathe_generator;

/* Whose turn it is when something fails. */
typedef int32_t lathe_error_kind;
enum {
  LATHE_INVALID_ARGUMENT = 1, /* what the caller gave does not fit */
  LATHE_INVALID_MODEL = 2,    /* the model contradicts its format or itself */
  LATHE_UNSUPPORTED = 3,      /* valid, but Lathe does not have it; all missing operators at once */
  LATHE_OUT_OF_MEMORY = 4,    /* no memory, or a session's limit is reached */
  LATHE_DEVICE = 5,           /* a device failed; the session is lost, the plan is not */
  LATHE_IO = 6,               /* a file cannot be read or written */
  LATHE_INTERNAL = 7,         /* a fault of Lathe's */
  LATHE_INTERRUPTED = 8 /* cancelled, or out of time; states are as they were before the run */
};

/* Types of elements; the numbers are those of onnx.TensorProto.DataType. Types below 8 bits are
 * packed, low bits first. */
typedef int32_t lathe_element_type;
enum {
  LATHE_F32 = 1,
  LATHE_U8 = 2,
  LATHE_I8 = 3,
  LATHE_U16 = 4,
  LATHE_I16 = 5,
  LATHE_I32 = 6,
  LATHE_I64 = 7,
  LATHE_STRING = 8,
  LATHE_BOOL = 9,
  LATHE_F16 = 10,
  LATHE_F64 = 11,
  LATHE_U32 = 12,
  LATHE_U64 = 13,
  LATHE_C64 = 14,
  LATHE_C128 = 15,
  LATHE_BF16 = 16,
  LATHE_F8E4M3FN = 17,
  LATHE_F8E4M3FNUZ = 18,
  LATHE_F8E5M2 = 19,
  LATHE_F8E5M2FNUZ = 20,
  LATHE_U4 = 21,
  LATHE_I4 = 22,
  LATHE_F4E2M1 = 23,
  LATHE_F8E8M0 = 24,
  LATHE_U2 = 25,
  LATHE_I2 = 26
};

typedef int32_t lathe_value_kind;
enum {
  LATHE_VALUE_NONE = 0, /* an optional without a value */
  LATHE_VALUE_TENSOR = 1,
  LATHE_VALUE_SEQUENCE = 2,
  LATHE_VALUE_OPTIONAL = 3, /* as a type only: a value is there or is not */
  LATHE_VALUE_MAP = 4
};

/* Takes a piece of text, which does not end with a zero byte. */
typedef void (*lathe_text_sink)(void* context, const char* text, size_t bytes);

/* Takes a line of the log. Level 0: a warning. May be called from any thread. */
typedef void (*lathe_log_sink)(void* context, int level, const char* line);

/* A file with external data that lies in memory. */
typedef struct lathe_data_file {
  const char* name; /* as the model gives it */
  const void* data;
  size_t bytes;
} lathe_data_file;

/* How a model is loaded. */
typedef struct lathe_load_options {
  size_t size;
  const char* name;   /* for messages; default: the path, or "<memory>" */
  const char* folder; /* where external data of a model in memory lies; default: nowhere */
  /* Inputs that will be given although the model has a default for them. */
  const char* const* fed;
  size_t fed_count;
  /* Called with `release_context` once the bytes of program_load_memory, those of `data` included,
   * are no longer read. Without it they are copied. */
  void (*release)(void* context);
  void* release_context;
  /* External data of an ONNX model, from memory (version 7); before what lies in files.
   * program_load copies it. */
  const lathe_data_file* data;
  size_t data_count;
} lathe_load_options;

/* What an input or output of a program is. */
typedef struct lathe_value_info {
  size_t size;
  const char* name;
  lathe_value_kind kind;
  lathe_element_type element_type; /* of a tensor */
  int rank;                        /* of a tensor; -1: unknown until it runs */
  const int64_t* dims;             /* rank extents; -1: not fixed */
  const char* const* dim_names;    /* rank texts: "batch", "past + 1", "224" */
  const char* type;                /* all of it as text: "f32[batch, 3, 224, 224]" */
} lathe_value_info;

/* How a program is compiled. */
typedef struct lathe_compile_options {
  size_t size;
  const char* target; /* one of target_name; default "ref" */
  const lathe_cancel* cancel;
} lathe_compile_options;

/* Where a session gets its memory; both functions are called from any thread. `allocate` gives
 * memory aligned to `alignment` (a power of two) or NULL. What `context` points at must outlive the
 * session and its results. */
typedef struct lathe_allocator {
  size_t size;
  void* (*allocate)(void* context, size_t bytes, size_t alignment);
  void (*deallocate)(void* context, void* memory, size_t bytes);
  void* context;
} lathe_allocator;

typedef struct lathe_session_options {
  size_t size;
  int threads;          /* that compute; default: one per available core */
  int64_t memory_limit; /* bytes of scratch, results and states; default: none */
  const lathe_allocator* allocator;
  lathe_log_sink log; /* takes this session's warnings; default: the log */
  void* log_context;
} lathe_session_options;

/* Gives the memory for a result, once its extents are known: dense, for all its elements. NULL
 * fails the run with LATHE_OUT_OF_MEMORY. The tensor that run gives back refers to this memory. */
typedef void* (*lathe_output_callback)(void* context, size_t index, lathe_element_type type,
                                       const int64_t* dims, int rank, size_t bytes);

typedef struct lathe_run_options {
  size_t size;
  const lathe_cancel* cancel;
  double timeout_seconds;       /* default: none */
  lathe_output_callback output; /* for results that are not bound; strings are never asked for */
  void* output_context;
} lathe_run_options;

/* What a session has used, in bytes. */
typedef struct lathe_memory_use {
  size_t size;
  int64_t now;
  int64_t peak;
} lathe_memory_use;

/* UTF-8 that need not end with a zero byte. */
typedef struct lathe_text {
  const char* data;
  size_t bytes;
} lathe_text;

/* Characters [begin, end) of a text. */
typedef struct lathe_range {
  uint32_t begin;
  uint32_t end;
} lathe_range;

/* Gets ranges one by one. */
typedef void (*lathe_range_sink)(void* context, lathe_range range);

typedef struct lathe_tokenizer_options {
  size_t size;
  const char* pattern; /* what splits the text, for tiktoken ranks of an unknown encoding */
} lathe_tokenizer_options;

/* All zero: as the tokenizer's file says, with ids alone. */
typedef struct lathe_encode_options {
  size_t size;
  int bare;            /* no special tokens are added */
  int detailed;        /* more than ids */
  int replace_invalid; /* what is not UTF-8 becomes U+FFFD; else it is an error */
  int special_as_text; /* special tokens that stand in the text are text */
  int whole;           /* neither cut nor filled up to a length */
  int threads;         /* of a batch; default: one */
} lathe_encode_options;

/* Why a sequence ended. */
typedef int32_t lathe_finish_reason;
enum {
  LATHE_NOT_FINISHED = 0,
  LATHE_FINISHED_BY_STOP = 1,  /* an end token or a stop string */
  LATHE_FINISHED_BY_LENGTH = 2 /* no room, or enough tokens */
};

/* What a prompt has become. */
typedef struct lathe_sequence {
  size_t size;
  size_t prompt;         /* which prompt it continues */
  const int32_t* tokens; /* prompt and generated, the end token included */
  size_t token_count;
  size_t prompt_tokens; /* how many of them were given */
  lathe_text text;      /* of those generated, up to a stop string; empty without a tokenizer */
  lathe_finish_reason reason;
  float score; /* of beams */
} lathe_sequence;

/* Sees the logits that a prompt's next token is chosen from, and may change them. Not 0: the step
 * fails with LATHE_INVALID_ARGUMENT, and may be tried again. */
typedef int (*lathe_logits_hook)(void* context, size_t prompt, const int32_t* tokens,
                                 size_t token_count, float* logits, size_t vocabulary);

/* A token and its log-probability. */
typedef struct lathe_token_choice {
  int32_t token;
  float log_probability;
} lathe_token_choice;

/* What a generated token was chosen from, by the logits as the model gave them. */
typedef struct lathe_choice {
  size_t size;
  float log_probability;                 /* of the token itself */
  const lathe_token_choice* most_likely; /* best first, as many as "log_probabilities" asks for */
  size_t likeliest_count;
} lathe_choice;

/* Takes a state of a sequence: the names of the file's input and output for it (NULL where it has
 * none), which live as long as the call, and a tensor that is the taker's to free. */
typedef void (*lathe_state_sink)(void* context, const char* past, const char* present,
                                 lathe_tensor* tensor);

typedef struct lathe_api {
  size_t size;      /* of this table */
  uint32_t version; /* of this table; at least what was asked for */

  /* "0.1.0" */
  const char* (*version_text)(void);

  /* ---- errors ---- */
  lathe_error_kind (*error_kind)(const lathe_error* error);
  /* What, where, expected, found, and what to do; notes follow on lines of their own. At most 64
   * KB. */
  const char* (*error_message)(const lathe_error* error);
  size_t (*error_note_count)(const lathe_error* error);
  const char* (*error_note)(const lathe_error* error, size_t index); /* NULL beyond the last */
  void (*error_free)(lathe_error* error);

  /* ---- programs ---- */
  /* An ONNX model or a program's text, known by its content. Weights stay in the mapped file. */
  lathe_error* (*program_load)(const char* path, const lathe_load_options* options,
                               lathe_program** program);
  lathe_error* (*program_load_memory)(const void* data, size_t bytes,
                                      const lathe_load_options* options, lathe_program** program);
  size_t (*program_input_count)(const lathe_program* program);
  size_t (*program_output_count)(const lathe_program* program);
  /* Fills in the fields that `info->size` covers. Pointers live as long as the program. */
  lathe_error* (*program_input)(const lathe_program* program, size_t index, lathe_value_info* info);
  lathe_error* (*program_output)(const lathe_program* program, size_t index,
                                 lathe_value_info* info);
  /* Turns pairs of an input (the past) and an output (the present) into states, which sessions keep
   * and update in place; both vanish from the inputs and outputs. */
  lathe_error* (*program_promote_states)(lathe_program* program, const char* const* past,
                                         const char* const* present, size_t count);
  lathe_error* (*program_print)(const lathe_program* program, lathe_text_sink sink, void* context);
  void (*program_free)(lathe_program* program);

  /* ---- plans ---- */
  size_t (*target_count)(void);
  const char* (*target_name)(size_t index); /* NULL beyond the last */
  /* The program is left as it is. `options` may be NULL. */
  lathe_error* (*plan_compile)(const lathe_program* program, const lathe_compile_options* options,
                               lathe_plan** plan);
  size_t (*plan_input_count)(const lathe_plan* plan);
  size_t (*plan_output_count)(const lathe_plan* plan);
  lathe_error* (*plan_input)(const lathe_plan* plan, size_t index, lathe_value_info* info);
  lathe_error* (*plan_output)(const lathe_plan* plan, size_t index, lathe_value_info* info);
  void (*plan_free)(lathe_plan* plan);

  /* ---- tensors ---- */
  /* Dense and zero-filled (strings empty). */
  lathe_error* (*tensor_create)(lathe_element_type type, const int64_t* dims, int rank,
                                lathe_tensor** tensor);
  /* Memory of the caller's, read and written in place. `strides` in elements, NULL: dense; types
   * below 8 bits must be dense; not for strings. `release` (may be NULL) is called with `context`
   * when nothing refers to the memory any more. */
  lathe_error* (*tensor_wrap)(lathe_element_type type, const int64_t* dims, const int64_t* strides,
                              int rank, void* data, void (*release)(void* context), void* context,
                              lathe_tensor** tensor);
  /* A sequence of values, which may be freed afterwards. */
  lathe_error* (*tensor_sequence)(lathe_tensor* const* items, size_t count,
                                  lathe_tensor** sequence);
  lathe_value_kind (*tensor_kind)(const lathe_tensor* tensor);
  size_t (*tensor_item_count)(const lathe_tensor* tensor); /* of a sequence; else 0 */
  lathe_error* (*tensor_item)(const lathe_tensor* tensor, size_t index, lathe_tensor** item);
  /* Of a tensor; for other kinds 0 or NULL. */
  lathe_element_type (*tensor_type)(const lathe_tensor* tensor);
  int (*tensor_rank)(const lathe_tensor* tensor);
  const int64_t* (*tensor_dims)(const lathe_tensor* tensor);
  const int64_t* (*tensor_strides)(const lathe_tensor* tensor); /* in elements */
  int64_t (*tensor_count)(const lathe_tensor* tensor);          /* of elements */
  int64_t (*tensor_bytes)(const lathe_tensor* tensor);          /* of the elements side by side */
  void* (*tensor_data)(const lathe_tensor* tensor);             /* NULL for strings */
  /* Elements of a dense string tensor, row-major; they may hold zero bytes. */
  lathe_error* (*tensor_string)(const lathe_tensor* tensor, int64_t index, const char** text,
                                size_t* bytes);
  lathe_error* (*tensor_set_string)(lathe_tensor* tensor, int64_t index, const char* text,
                                    size_t bytes);
  void (*tensor_free)(lathe_tensor* tensor);

  /* ---- sessions ---- */
  lathe_error* (*session_create)(const lathe_plan* plan, const lathe_session_options* options,
                                 lathe_session** session);
  /* Runs once. `inputs`: one per input of the plan, in order. `outputs`: one entry per output;
   * where an entry holds a tensor, the result is written there (its type and extents must be the
   * result's), else a tensor is made and put there. A run that fails leaves states and entries as
   * they were. `options` may be NULL. */
  lathe_error* (*session_run)(lathe_session* session, const lathe_run_options* options,
                              lathe_tensor* const* inputs, size_t input_count,
                              lathe_tensor** outputs, size_t output_count);
  lathe_error* (*session_reset)(lathe_session* session); /* states hold nothing */
  lathe_error* (*session_length)(const lathe_session* session, const char* state, int64_t* length);
  /* Keeps the first `length` rows of every state that grows. */
  lathe_error* (*session_truncate)(lathe_session* session, int64_t length);
  lathe_error* (*session_memory)(const lathe_session* session, lathe_memory_use* use);
  void (*session_free)(lathe_session* session);

  /* ---- cancellation ---- */
  lathe_error* (*cancel_create)(lathe_cancel** cancel);
  void (*cancel_set)(lathe_cancel* cancel); /* from any thread or signal handler */
  void (*cancel_reset)(lathe_cancel* cancel);
  void (*cancel_free)(lathe_cancel* cancel);

  /* ---- the log of the process ---- */
  /* NULL: standard error. */
  void (*log_set_sink)(lathe_log_sink sink, void* context);
  void (*log_set_level)(int level); /* 0: warnings only, to 6 */

  /* ---- tokenizers (version 2) ---- */
  /* A folder, or a tokenizer.json, .model, .tiktoken, vocab.json, vocab.txt or GGUF file.
   * `options` may be NULL. Tokenizers may be used by any number of threads. */
  lathe_error* (*tokenizer_load)(const char* path, const lathe_tokenizer_options* options,
                                 lathe_tokenizer** tokenizer);
  /* The bytes of such a file, which are not kept; `name` for messages. */
  lathe_error* (*tokenizer_load_memory)(const void* data, size_t bytes, const char* name,
                                        const lathe_tokenizer_options* options,
                                        lathe_tokenizer** tokenizer);
  size_t (*tokenizer_size)(const lathe_tokenizer* tokenizer); /* tokens, added ones included */
  /* The id of a token as the file spells it; UINT32_MAX if there is none. */
  uint32_t (*tokenizer_token_to_id)(const lathe_tokenizer* tokenizer, lathe_text token);
  /* LATHE_INVALID_ARGUMENT for an id without a token. */
  lathe_error* (*tokenizer_id_to_token)(const lathe_tokenizer* tokenizer, uint32_t id,
                                        lathe_text_sink sink, void* context);
  /* What the configuration calls "bos_token", "eos_token", …; NULL if it names none. */
  const char* (*tokenizer_special_token)(const lathe_tokenizer* tokenizer, const char* name);
  /* `pair` and `options` may be NULL. */
  lathe_error* (*tokenizer_encode)(const lathe_tokenizer* tokenizer, lathe_text text,
                                   const lathe_text* pair, const lathe_encode_options* options,
                                   lathe_encoding** encoding);
  /* One encoding for each text; all or none. */
  lathe_error* (*tokenizer_encode_batch)(const lathe_tokenizer* tokenizer, const lathe_text* texts,
                                         size_t count, const lathe_encode_options* options,
                                         lathe_encoding** encodings);
  lathe_error* (*tokenizer_decode)(const lathe_tokenizer* tokenizer, const uint32_t* ids,
                                   size_t count, int keep_special_tokens, lathe_text_sink sink,
                                   void* context);
  void (*tokenizer_free)(lathe_tokenizer* tokenizer);

  /* ---- encodings: lists with an entry for each token ---- */
  size_t (*encoding_count)(const lathe_encoding* encoding);
  const uint32_t* (*encoding_ids)(const lathe_encoding* encoding);
  /* Of detailed encodings; else NULL. */
  const uint32_t* (*encoding_type_ids)(const lathe_encoding* encoding);
  const lathe_range* (*encoding_offsets)(const lathe_encoding* encoding);
  const int64_t* (*encoding_words)(const lathe_encoding* encoding); /* -1: of no word */
  const uint8_t* (*encoding_special_tokens_mask)(const lathe_encoding* encoding);
  const uint8_t* (*encoding_attention_mask)(const lathe_encoding* encoding);
  /* Data NULL beyond the last. */
  lathe_text (*encoding_token)(const lathe_encoding* encoding, size_t index);
  /* What was cut off, in pieces that belong to the encoding; NULL beyond the last. */
  size_t (*encoding_overflow_count)(const lathe_encoding* encoding);
  const lathe_encoding* (*encoding_overflow)(const lathe_encoding* encoding, size_t index);
  void (*encoding_free)(lathe_encoding* encoding);

  /* ---- text as its ids come ---- */
  /* No character is given in part, and what was given does not change. */
  lathe_error* (*decode_stream_create)(const lathe_tokenizer* tokenizer, int keep_special_tokens,
                                       lathe_decode_stream** stream);
  lathe_error* (*decode_stream_step)(lathe_decode_stream* stream, uint32_t id, lathe_text_sink sink,
                                     void* context);
  /* What is held back; then the stream begins anew. */
  lathe_error* (*decode_stream_finish)(lathe_decode_stream* stream, lathe_text_sink sink,
                                       void* context);
  void (*decode_stream_free)(lathe_decode_stream* stream);

  /* Finds the first of some strings in a text that comes in pieces, however it is cut. */
  lathe_error* (*stop_strings_create)(const lathe_text* strings, size_t count,
                                      lathe_stop_strings** stops);
  /* Gives what is certainly before any of them; nothing more once one is found. */
  lathe_error* (*stop_strings_push)(lathe_stop_strings* stops, lathe_text text,
                                    lathe_text_sink sink, void* context);
  /* The text has ended: gives what was held back. */
  lathe_error* (*stop_strings_finish)(lathe_stop_strings* stops, lathe_text_sink sink,
                                      void* context);
  int64_t (*stop_strings_found)(const lathe_stop_strings* stops); /* index, or -1 */
  void (*stop_strings_free)(lathe_stop_strings* stops);

  /* ---- chat templates (version 3) ---- */
  /* A model folder (chat_template.jinja, tokenizer_config.json, …) or a template file. Templates
   * may be used by any number of threads. */
  lathe_error* (*chat_template_load)(const char* path, lathe_chat_template** chat);
  /* The text of one template, without special tokens. */
  lathe_error* (*chat_template_create)(lathe_text source, lathe_chat_template** chat);
  /* `request`: JSON, an array of messages or an object with "messages" and, as they are wanted,
   * "tools", "documents", "add_generation_prompt", "continue_final_message" (true, or the field
   * that goes on) and "template_name"; other members are variables of the template. `text` gets
   * the text; `ranges`, unless NULL, the characters that {% generation %} marks, in order. */
  lathe_error* (*chat_template_render)(const lathe_chat_template* chat, lathe_text request,
                                       lathe_text_sink text, void* text_context,
                                       lathe_range_sink ranges, void* ranges_context);
  void (*chat_template_free)(lathe_chat_template* chat);

  /* ---- language models: folders with a genai_config.json (version 4) ---- */
  /* What to open, and how. `folder` may be NULL if all its files are given from memory. */
  lathe_error* (*model_config_create)(const char* folder, lathe_model_config** config);
  /* JSON of the file's own form, merged into it: objects join, the rest is replaced. */
  lathe_error* (*model_config_overlay)(lathe_model_config* config, lathe_text json);
  lathe_error* (*model_config_clear_providers)(lathe_model_config* config);
  lathe_error* (*model_config_append_provider)(lathe_model_config* config, const char* provider);
  lathe_error* (*model_config_set_provider_option)(lathe_model_config* config, const char* provider,
                                                   const char* key, const char* value);
  /* A file of the folder, copied from memory; it stands before one on disk. Also a file with
   * external data, by the name that the model gives it, seen from the folder. */
  lathe_error* (*model_config_add_model_data)(lathe_model_config* config, const char* name,
                                              const void* data, size_t bytes);
  lathe_error* (*model_config_remove_model_data)(lathe_model_config* config, const char* name);
  /* One of target_name; default: what suits the folder's providers. */
  lathe_error* (*model_config_set_target)(lathe_model_config* config, const char* target);
  /* 0: as many as the folder asks for, else one per available core. */
  lathe_error* (*model_config_set_threads)(lathe_model_config* config, int threads);
  void (*model_config_free)(lathe_model_config* config);

  /* Models may be used by any number of threads. The configuration is left as it is. */
  lathe_error* (*model_create)(const lathe_model_config* config, lathe_model** model);
  const char* (*model_type)(const lathe_model* model);   /* "llama" */
  const char* (*model_device)(const lathe_model* model); /* its target */
  int64_t (*model_vocabulary)(const lathe_model* model);
  int64_t (*model_context_length)(const lathe_model* model);
  lathe_error* (*model_tokenizer)(const lathe_model* model, lathe_tokenizer** tokenizer);
  lathe_error* (*model_chat_template)(const lathe_model* model, lathe_chat_template** chat);
  void (*model_free)(lathe_model* model);

  /* Search options by the names of docs; at first those of the folder. */
  lathe_error* (*generator_params_create)(const lathe_model* model, lathe_generator_params** out);
  /* `value`: JSON, or what is no JSON as a text. */
  lathe_error* (*generator_params_set)(lathe_generator_params* params, const char* name,
                                       lathe_text value);
  lathe_error* (*generator_params_get)(const lathe_generator_params* params, const char* name,
                                       lathe_text_sink sink, void* context); /* JSON */
  /* LATHE_UNSUPPORTED until grammars are there. */
  lathe_error* (*generator_params_set_guidance)(lathe_generator_params* params, const char* type,
                                                const char* data, int fast_forward);
  void (*generator_params_free)(lathe_generator_params* params);

  /* A generator is one thread's at a time. `params` are copied; NULL: the folder's. */
  lathe_error* (*generator_create)(const lathe_model* model, const lathe_generator_params* params,
                                   lathe_generator** generator);
  /* More tokens of a prompt; `prompt` may be one more than there are: a batch grows. */
  lathe_error* (*generator_append_tokens)(lathe_generator* generator, size_t prompt,
                                          const int32_t* tokens, size_t count);
  /* The model's inputs by their names, each for all prompts at once: "input_ids", i32 or i64 [rows]
   * of one prompt or [prompts, rows], appends tokens; those of an encoder have the prompts along
   * their first axis and come before the first step. The first such call makes the prompts; another
   * number of them later, or one that differs from that of token lists given by
   * generator_append_tokens, is LATHE_INVALID_ARGUMENT. So are inputs that the runtime makes;
   * others are LATHE_UNSUPPORTED. */
  lathe_error* (*generator_set_model_input)(lathe_generator* generator, const char* name,
                                            const lathe_tensor* tensor);
  size_t (*generator_prompt_count)(const lathe_generator* generator);
  size_t (*generator_token_count)(const lathe_generator* generator, size_t prompt);
  int (*generator_is_done)(const lathe_generator* generator);
  /* One token for every prompt that is not done. `cancel` may be NULL; cancelled, all is as
   * before. */
  lathe_error* (*generator_generate_next_token)(lathe_generator* generator,
                                                const lathe_cancel* cancel);
  /* Those that the last step chose, one for each prompt's first sequence; -1 where there was none.
   * Valid until the next call. */
  lathe_error* (*generator_next_tokens)(lathe_generator* generator, const int32_t** tokens,
                                        size_t* count);
  lathe_error* (*generator_rewind_to)(lathe_generator* generator, size_t prompt, size_t length);
  /* f32 [rows, 1, vocabulary], a copy: runs what has not been run. A row for each prompt or, where
   * beams or samples have parted, for each of its sequences that goes on. */
  lathe_error* (*generator_get_logits)(lathe_generator* generator, const lathe_cancel* cancel,
                                       lathe_tensor** logits);
  /* f32 of the same extents: what the next tokens are chosen from. */
  lathe_error* (*generator_set_logits)(lathe_generator* generator, const lathe_tensor* logits);
  /* An output of the model by its file's name, a copy, prompts along the first axis (all must have
   * equal extents; generator_get_output_of asks one prompt). "logits" are those of
   * generator_get_logits; presents and pasts are the states of each prompt's first sequence; others
   * have the rows that the last step ran. */
  lathe_error* (*generator_get_output)(lathe_generator* generator, const char* name,
                                       lathe_tensor** tensor);
  lathe_error* (*generator_set_hook)(lathe_generator* generator, lathe_logits_hook hook,
                                     void* context); /* NULL: none */
  /* Over all prompts, best first for each. Pointers live until the next call. */
  lathe_error* (*generator_sequence_count)(lathe_generator* generator, size_t* count);
  lathe_error* (*generator_sequence)(lathe_generator* generator, size_t index,
                                     lathe_sequence* sequence);
  /* LATHE_UNSUPPORTED until adapters are there. */
  lathe_error* (*generator_set_active_adapter)(lathe_generator* generator, const char* name);
  void (*generator_free)(lathe_generator* generator);

  /* The whole answer to one prompt, as it comes. `params` and `cancel` may be NULL. */
  lathe_error* (*model_generate)(const lathe_model* model, const lathe_generator_params* params,
                                 lathe_text prompt, const lathe_cancel* cancel,
                                 lathe_text_sink sink, void* context);

  /* ---- additions of version 5 ---- */

  /* What weight products compute in: "as_model" (default), "int8", "bf16" or "f32".
   * Products that cannot stay as the file has them. */
  lathe_error* (*model_config_set_compute)(lathe_model_config* config, const char* compute);

  /* ---- additions of version 6 ---- */

  /* Most bytes of caches and states of a generator; default 0: what the machine has. */
  lathe_error* (*model_config_set_memory_limit)(lathe_model_config* config, int64_t bytes);
  /* Tokens that end a sequence. They live as long as the model. */
  lathe_error* (*model_end_tokens)(const lathe_model* model, const int32_t** tokens, size_t* count);
  /* A prompt with options of its own (NULL: the generator's): one batch may mix greedy and sampled
   * ones. `prompt` gets its number. */
  lathe_error* (*generator_add_prompt)(lathe_generator* generator,
                                       const lathe_generator_params* params, const int32_t* tokens,
                                       size_t count, size_t* prompt);
  /* "input_ids": i64 [prompts, tokens], all so far; pasts: as generator_get_output. The other
   * inputs are not kept: LATHE_INVALID_ARGUMENT. */
  lathe_error* (*generator_get_input)(lathe_generator* generator, const char* name,
                                      lathe_tensor** tensor);
  /* Of generated token `token` of a sequence, where the option "log_probabilities" is set. Pointers
   * live until the next call. */
  lathe_error* (*generator_choice)(lathe_generator* generator, size_t sequence, size_t token,
                                   lathe_choice* choice);
  /* Another prompt that goes on as this one stands, sharing memory until one writes; `params` NULL:
   * with its options. Not from beams or several samples. */
  lathe_error* (*generator_fork)(lathe_generator* generator, size_t prompt,
                                 const lathe_generator_params* params, size_t* fork);
  /* The same by way of bytes, in this process or another with the same model. */
  lathe_error* (*generator_save)(const lathe_generator* generator, size_t prompt,
                                 lathe_text_sink sink, void* context);
  lathe_error* (*generator_restore)(lathe_generator* generator,
                                    const lathe_generator_params* params, const void* data,
                                    size_t bytes, size_t* prompt);
  /* The states of a prompt's sequence as the model's file takes them, batch 1. */
  lathe_error* (*generator_export)(const lathe_generator* generator, size_t prompt,
                                   lathe_state_sink sink, void* context);
  /* Tokens that may come next, for grammars: token t is allowed if bit t % 32 of words[t / 32] is
   * set. For the prompt's next token only; 0 words: all. LATHE_INVALID_ARGUMENT for a count other
   * than (vocabulary + 31) / 32, a mask that allows none, beams and several samples; so is a step
   * in which the other rules leave none of them. */
  lathe_error* (*generator_set_token_mask)(lathe_generator* generator, size_t prompt,
                                           const uint32_t* words, size_t count);
  /* Rows of embeddings behind a prompt's tokens, floats [rows, hidden], a copy, where the model's
   * decoder takes those; `prompt` may be one more than there are. `positions`: where they stand,
   * i64 [rows] or [3, rows]; NULL: one behind the other. Equal hashes are taken for equal rows; 0:
   * one of their bytes. In the prompt's tokens a row is a number below 0. */
  lathe_error* (*generator_append_embeddings)(lathe_generator* generator, size_t prompt,
                                              const lathe_tensor* rows,
                                              const lathe_tensor* positions, uint64_t hash);

  /* ---- additions of version 7 ---- */

  /* As generator_get_output, of one prompt alone: prompts of any lengths. Batch 1. */
  lathe_error* (*generator_get_output_of)(lathe_generator* generator, size_t prompt,
                                          const char* name, lathe_tensor** tensor);
  /* As model_config_add_model_data, without a copy: `data` is read until `release`, which may be
   * NULL, is called with `context`; at once where this fails. Configuration and models made of it
   * hold it. */
  lathe_error* (*model_config_wrap_model_data)(lathe_model_config* config, const char* name,
                                               const void* data, size_t bytes,
                                               void (*release)(void* context), void* context);
} lathe_api;

/* The table of functions, or NULL if this library is older than `version`. */
LATHE_EXPORT const lathe_api* lathe_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif
