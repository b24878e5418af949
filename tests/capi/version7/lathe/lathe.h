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
 * - Each kind of handle has its own free function. Handles may be freed in any order: a plan
 *   may outlive its program, a result its session. Freeing NULL is valid.
 * - Functions that return no error require handles that are not NULL.
 * - Strings are UTF-8 and end with a zero byte. A string that a function returns lives as long as
 *   the handle it was read from.
 * - Any number of threads may read programs, plans and tensors, and run a session without states.
 *   A session with states serves one thread at a time; a concurrent call returns
 *   LATHE_INVALID_ARGUMENT and changes nothing.
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

/* Error category: who must act. */
typedef int32_t lathe_error_kind;
enum {
  LATHE_INVALID_ARGUMENT = 1, /* the caller: an argument is invalid */
  LATHE_INVALID_MODEL = 2,    /* the model's author: a file contradicts its format or itself */
  LATHE_UNSUPPORTED = 3,      /* valid, but not implemented; lists every missing operator */
  LATHE_OUT_OF_MEMORY = 4,    /* no memory, or a memory limit is reached */
  LATHE_DEVICE = 5,           /* a device failed; the session is lost, the plan remains valid */
  LATHE_IO = 6,               /* a file cannot be read or written */
  LATHE_INTERNAL = 7,         /* a bug in Lathe */
  LATHE_INTERRUPTED = 8       /* cancelled or timed out; states are as before the run */
};

/* Element types; the values are those of onnx.TensorProto.DataType. Types below 8 bits are packed,
 * low bits first. */
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

/* Kinds of values. */
typedef int32_t lathe_value_kind;
enum {
  LATHE_VALUE_NONE = 0, /* an optional without a value */
  LATHE_VALUE_TENSOR = 1,
  LATHE_VALUE_SEQUENCE = 2,
  LATHE_VALUE_OPTIONAL = 3, /* only as the type of an input or output */
  LATHE_VALUE_MAP = 4
};

/* Receives a piece of UTF-8 text of `bytes` bytes, without a terminating zero byte. */
typedef void (*lathe_text_sink)(void* context, const char* text, size_t bytes);

/* Receives a line of the log. Level 0: a warning. Called from any thread. */
typedef void (*lathe_log_sink)(void* context, int level, const char* line);

/* A file with external data of an ONNX model, in memory. */
typedef struct lathe_data_file {
  const char* name; /* location of the file, as the model spells it */
  const void* data; /* `bytes` bytes */
  size_t bytes;
} lathe_data_file;

/* Options of program_load and program_load_memory. */
typedef struct lathe_load_options {
  size_t size;
  const char* name;   /* name in messages; default: the path, or "<memory>" */
  const char* folder; /* folder of the external data of a model in memory; default: none */
  /* Names of initialisers that the caller passes as inputs: they override the model's values. */
  const char* const* overridden_initialisers;
  size_t overridden_initialiser_count;
  /* program_load_memory calls it with `release_context` after the last read of its bytes and of
   * `data`. Without it, both are copied. */
  void (*release)(void* context);
  void* release_context;
  /* External data in memory (version 7), searched before files. program_load copies it. */
  const lathe_data_file* data;
  size_t data_count;
} lathe_load_options;

/* The type of an input or output. Filled in by program_input and others. */
typedef struct lathe_value_info {
  size_t size;
  const char* name;
  lathe_value_kind kind;
  lathe_element_type element_type; /* of a tensor */
  int rank;                        /* of a tensor; -1: unknown before the run */
  const int64_t* dims;             /* `rank` sizes in elements; -1: not fixed */
  const char* const* dim_names;    /* `rank` strings: "batch", "past + 1", "224" */
  const char* type;                /* the type as text: "f32[batch, 3, 224, 224]" */
} lathe_value_info;

/* Options of plan_compile. */
typedef struct lathe_compile_options {
  size_t size;
  const char* target;         /* one of target_name, or "auto" (default): the best one present */
  const lathe_cancel* cancel; /* ends the compilation with LATHE_INTERRUPTED; default: none */
} lathe_compile_options;

/* The memory source of a session; both functions are called from any thread. `allocate` returns
 * memory aligned to `alignment` bytes (a power of two), or NULL. `context` must outlive the session
 * and its results. */
typedef struct lathe_allocator {
  size_t size;
  void* (*allocate)(void* context, size_t bytes, size_t alignment);
  void (*deallocate)(void* context, void* memory, size_t bytes);
  void* context;
} lathe_allocator;

/* Options of session_create. */
typedef struct lathe_session_options {
  size_t size;
  int threads;          /* compute threads of its own, up to 1024; default: the process's threads,
                           one per available core, which all sessions share */
  int64_t memory_limit; /* bytes of scratch, results and states; default: none */
  const lathe_allocator* allocator; /* default: the library's */
  lathe_log_sink log;               /* receives this session's warnings; default: the log */
  void* log_context;
} lathe_session_options;

/* Returns the memory for result `index` once its shape is known: `bytes` bytes, dense, row-major.
 * NULL fails the run with LATHE_OUT_OF_MEMORY. The tensor that session_run returns refers to this
 * memory. */
typedef void* (*lathe_output_callback)(void* context, size_t index, lathe_element_type type,
                                       const int64_t* dims, int rank, size_t bytes);

/* Options of session_run. */
typedef struct lathe_run_options {
  size_t size;
  const lathe_cancel* cancel;   /* ends the run with LATHE_INTERRUPTED; default: none */
  double timeout_seconds;       /* default: none */
  lathe_output_callback output; /* memory for unbound results; not called for strings */
  void* output_context;
} lathe_run_options;

/* Memory use of a session in bytes. */
typedef struct lathe_memory_use {
  size_t size;
  int64_t now;
  int64_t peak; /* since the session was created */
} lathe_memory_use;

/* UTF-8 without a required terminating zero byte. */
typedef struct lathe_text {
  const char* data;
  size_t bytes;
} lathe_text;

/* Characters [begin, end) of a text. */
typedef struct lathe_range {
  uint32_t begin;
  uint32_t end;
} lathe_range;

/* Receives one range. */
typedef void (*lathe_range_sink)(void* context, lathe_range range);

/* Options of tokenizer_load. */
typedef struct lathe_tokenizer_options {
  size_t size;
  const char* pattern; /* pre-tokenizer regex for tiktoken ranks of an unknown encoding */
} lathe_tokenizer_options;

/* Options of tokenizer_encode. All zero: the settings of the tokenizer's file, ids alone. */
typedef struct lathe_encode_options {
  size_t size;
  int no_special_tokens; /* adds no special tokens */
  int with_offsets;      /* also records type ids, offsets, words, masks and tokens */
  int replace_invalid;   /* invalid UTF-8 becomes U+FFFD; by default it is an error */
  int special_as_text;   /* special tokens in the text are encoded as plain text */
  int no_padding;        /* neither truncates nor pads */
  int threads;           /* of a batch; default: one */
} lathe_encode_options;

/* Why a sequence ended. */
typedef int32_t lathe_finish_reason;
enum {
  LATHE_NOT_FINISHED = 0,
  LATHE_FINISHED_BY_STOP = 1,  /* an end token or a stop string */
  LATHE_FINISHED_BY_LENGTH = 2 /* max_length, max_new_tokens or the context is reached */
};

/* A prompt and its continuation. */
typedef struct lathe_sequence {
  size_t size;
  size_t prompt;         /* index of the prompt */
  const int32_t* tokens; /* prompt and generated tokens, the end token included */
  size_t token_count;
  size_t prompt_tokens; /* number of prompt tokens in `tokens` */
  lathe_text text;      /* generated text up to a stop string; empty without a tokenizer */
  lathe_finish_reason reason;
  float score; /* of beam search: log-probability under the length penalty */
} lathe_sequence;

/* Reads and may change the f32 [vocabulary] logits of a prompt's next token. A result other than 0
 * fails the step with LATHE_INVALID_ARGUMENT; the step may be repeated. */
typedef int (*lathe_logits_hook)(void* context, size_t prompt, const int32_t* tokens,
                                 size_t token_count, float* logits, size_t vocabulary);

/* A token and its log-probability. */
typedef struct lathe_token_logprob {
  int32_t token;
  float log_probability;
} lathe_token_logprob;

/* The log-probability of a generated token and its alternatives, from the model's logits before
 * penalties and temperature. */
typedef struct lathe_sampled_token {
  size_t size;
  float log_probability;                  /* of the token itself */
  const lathe_token_logprob* most_likely; /* best first, as many as "log_probabilities" requests */
  size_t most_likely_count;
} lathe_sampled_token;

/* Receives a state of a sequence: the names of its input and output in the model's file, NULL where
 * there is none, valid during the call, and a tensor that the receiver frees. */
typedef void (*lathe_state_sink)(void* context, const char* past, const char* present,
                                 lathe_tensor* tensor);

/* Receives a piece of text like lathe_text_sink; a result other than 0 ends the generation. */
typedef int (*lathe_text_callback)(void* context, const char* text, size_t bytes);

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
  /* Loads the templates of a model folder (chat_template.jinja, tokenizer_config.json, …) or a
   * template file. Any number of threads may render one. LATHE_IO, LATHE_INVALID_MODEL,
   * LATHE_INVALID_ARGUMENT for a folder without a template. */
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

  /* ---- language models: folders with a genai_config.json (version 4) ---- */
  /* `folder` may be NULL if all files come from memory. */
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
  /* Sequences of all prompts, best first for each prompt. Pointers live until the next call.
   * LATHE_INVALID_ARGUMENT for an index beyond the last. */
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
} lathe_api;

/* The table of functions; NULL if the library is older than `version`. */
LATHE_EXPORT const lathe_api* lathe_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif
