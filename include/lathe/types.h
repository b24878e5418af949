/* SPDX-License-Identifier: MIT */
/* The types of Lathe's C interface; lathe.h has the rules and the functions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroes a struct of this interface and sets its size: lathe_run_options o =
 * LATHE_INIT(lathe_run_options); (C++: lathe_run_options o{}; o.size = sizeof o;) */
#define LATHE_INIT(type) {.size = sizeof(type)}

typedef struct lathe_error lathe_error;
typedef struct lathe_environment lathe_environment;
typedef struct lathe_device lathe_device;
typedef struct lathe_stream lathe_stream;
typedef struct lathe_program lathe_program;
typedef struct lathe_module lathe_module;
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
typedef struct lathe_sentence_encoder lathe_sentence_encoder;

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

/* Lets the caller end a function: called about every 50 ms on the thread that called the function
 * which takes it. A result other than 0 ends that function with LATHE_INTERRUPTED. */
typedef int (*lathe_poll)(void* context);

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
  lathe_poll poll; /* version 8; default: none */
  void* poll_context;
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
  /* Version 8. The meaning of the value and of its axes in the model's file: "IMAGE", "DATA_BATCH";
   * empty strings where it states none. */
  const char* denotation;
  const char* const* dim_denotations; /* `rank` strings */
  int has_default;                    /* an input that a run may omit: session_run takes NULL */
} lathe_value_info;

/* What a model's file states beside its graph; empty strings and 0 for other programs. Filled in by
 * program_info; strings live as long as the program. */
typedef struct lathe_program_info {
  size_t size;
  const char* producer;
  const char* producer_version;
  const char* domain;
  const char* description;
  const char* graph_name;
  const char* graph_description;
  int64_t model_version;
} lathe_program_info;

/* The sizes that a symbol of dims may have. */
typedef struct lathe_dim_range {
  const char* name;         /* as in lathe_value_info: "batch" */
  int64_t least;            /* least = most: the symbol is replaced by this size */
  int64_t most;             /* -1: no limit */
  const int64_t* preferred; /* sizes worth a variant of their own */
  size_t preferred_count;
} lathe_dim_range;

/* Options of plan_compile. */
typedef struct lathe_compile_options {
  size_t size;
  /* One of target_name, or "auto" (default): that of a compiled file, else the best one present. */
  const char* target;
  const lathe_cancel* cancel; /* ends the compilation with LATHE_INTERRUPTED; default: none */
  lathe_poll poll;            /* version 8; default: none */
  void* poll_context;
  const char* compute;         /* as of model_config_set_compute; default: "as_model" */
  int threads;                 /* that pack weights; default: the process's */
  const lathe_dim_range* dims; /* default: the ranges of the program */
  size_t dim_count;
  lathe_text_sink trace; /* receives a line per pass; default: none */
  void* trace_context;
  /* Measures other ways to compute each product and convolution for about this many seconds, at
     most 86400, on inputs of zeros, and takes the faster ones; default: 0, none. */
  double tune_seconds;
} lathe_compile_options;

/* Filled in by plan_info; pointers live as long as the plan. */
typedef struct lathe_plan_info {
  size_t size;
  const char* target;         /* "cpu" */
  const lathe_device* device; /* of the target's kernels; NULL: the host */
  int has_states;
  size_t launch_count;
  int64_t literal_bytes; /* constants, without weights packed by kernels */
} lathe_plan_info;

/* Options of environment_create. */
typedef struct lathe_environment_options {
  size_t size;
  int threads; /* compute threads, up to 1024; default: one per available core */
} lathe_environment_options;

/* Filled in by device_info. */
typedef struct lathe_device_info {
  size_t size;
  const char* name;     /* "cpu" */
  int64_t memory_bytes; /* 0: unknown */
  int host_accessible;  /* the host may read and write its memory */
} lathe_device_info;

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
  lathe_environment* environment; /* version 8; whose threads it uses; default: the process's */
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
  lathe_poll poll; /* version 8; default: none. Called between kernels */
  void* poll_context;
  /* New results stay in the memory of the plan's device, where its kernels write them. */
  int results_on_device;
  lathe_stream* stream;  /* the run begins after its work so far; default: none */
  lathe_text_sink trace; /* receives the times of all launches, a JSON array of trace events */
  void* trace_context;
} lathe_run_options;

/* Receives the end of an asynchronous run: NULL, or an error that the receiver frees. Called from
 * another thread. */
typedef void (*lathe_completion)(void* context, lathe_error* error);

/* A value of session_run_views: a tensor in the caller's memory, or a handle. All entries of an
 * array have the size of the first. */
typedef struct lathe_view {
  size_t size;
  lathe_element_type type;
  int32_t rank;
  const int64_t* dims;    /* `rank` sizes */
  const int64_t* strides; /* in elements; NULL: dense, row-major */
  void* data;
  lathe_tensor* value; /* not NULL: this value; the fields above are ignored */
  size_t bytes; /* of an output with data: room for a dense result of any shape; dims are ignored */
  const lathe_device* device; /* of data; NULL: the host */
  const char* name; /* of the input or output; NULL: by position. All entries or none have one */
} lathe_view;

/* Memory use of a session in bytes. */
typedef struct lathe_memory_use {
  size_t size;
  int64_t now;
  int64_t peak; /* since the session was created */
} lathe_memory_use;

/* Receives a value's name and type, valid during the call. */
typedef void (*lathe_value_sink)(void* context, size_t index, const lathe_value_info* info);

/* Options of program_verify. */
typedef struct lathe_verify_options {
  size_t size;
  const char* target;         /* default: "auto" */
  const char* compute;        /* as of model_config_set_compute; default: "as_model" */
  double tolerance;           /* largest |a - b| over largest |b|; default: by the element type */
  const lathe_cancel* cancel; /* default: none */
  lathe_poll poll;            /* default: none */
  void* poll_context;
} lathe_verify_options;

/* An absent optional operand of module_instruction. */
#define LATHE_NO_VALUE ((size_t)-1)

/* A parameter, an instruction or the results of a module. Filled in by module_at. */
typedef struct lathe_instruction_info {
  size_t size;
  const char* op;         /* "parameter", "return", or the op: "add", "literal" */
  const char* name;       /* of its first value */
  const char* attributes; /* a JSON object; empty for parameters and "return" */
  const size_t* operands; /* values, or LATHE_NO_VALUE */
  size_t operand_count;
  const size_t* results;    /* values */
  const char* const* types; /* of the results: "f32[batch, 3]" */
  size_t result_count;
  lathe_module* const* bodies;
  size_t body_count;
} lathe_instruction_info;

/* States the types of an op's results: calls `result` once per result, in order, with a type as
 * text, whose dims are integers and expressions over the operands' symbols: "f32[2*n, 4]".
 * `attributes` is a JSON object. A result other than 0 fails the inference with
 * LATHE_INVALID_MODEL; texts passed before become notes. Called from any thread, repeatedly. An
 * absent operand has the rank -1 and no element type. */
typedef int (*lathe_op_infer)(void* context, const lathe_value_info* operands, size_t count,
                              const char* attributes, lathe_text_sink result, void* result_context);

/* One evaluation of an op, in host memory. Views have any strides; an absent operand has no type.
 */
typedef struct lathe_op_call {
  size_t size;
  const char* attributes; /* a JSON object */
  const lathe_view* operands;
  size_t operand_count;
  const lathe_view* results; /* written by the callback */
  size_t result_count;
  lathe_text_sink message; /* receives notes of a failure */
  void* message_context;
} lathe_op_call;

/* Computes the results; a result other than 0 fails the run with LATHE_INVALID_ARGUMENT. Called
 * from any thread, also during compilation on constants, and at the same time for several runs. */
typedef int (*lathe_op_evaluate)(void* context, const lathe_op_call* call);

/* An op of the caller. */
typedef struct lathe_op_definition {
  size_t size;
  const char* name; /* letters a to z, digits and '_' */
  const char* doc;  /* one sentence; default: empty */
  /* Names of operands: "x", "bias?" for an optional one, "values..." for one or more at the end. */
  const char* const* operands;
  size_t operand_count;
  /* A JSON object of defaults by name, {"alpha": 0.5, "axes": [0]}, or {"kind": "integer"} for an
   * attribute that must be given; other kinds: number, boolean, text, element_type, integers,
   * numbers, texts, dims, type. Default: none. */
  const char* attributes;
  size_t result_count;        /* 1 or more */
  lathe_op_infer infer;       /* default: every result has the type of the first operand */
  lathe_op_evaluate evaluate; /* required */
  void* context;
  int impure; /* equal operands may have other results: not folded, not merged */
} lathe_op_definition;

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

#ifdef __cplusplus
}
#endif
