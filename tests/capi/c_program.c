/* SPDX-License-Identifier: MIT */
/* Calls the C interface from C11. Prints "N passed, N failed, 0 skipped". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lathe/lathe.h"

static const lathe_api* lathe;
static int passed = 0;
static int failed = 0;

static void expect(int condition, const char* what) {
  if (condition) {
    ++passed;
  } else {
    ++failed;
    printf("failed: %s\n", what);
  }
}

/* Expects an error of `kind` whose message starts with `beginning`. */
static void expect_error(lathe_error* error, lathe_error_kind kind, const char* beginning,
                         const char* what) {
  if (error == NULL) {
    expect(0, what);
    return;
  }
  const char* message = lathe->error_message(error);
  const int fits =
      lathe->error_kind(error) == kind && strncmp(message, beginning, strlen(beginning)) == 0;
  if (!fits) printf("kind %d: %s\n", (int)lathe->error_kind(error), message);
  expect(fits, what);
  lathe->error_free(error);
}

static void expect_done(lathe_error* error, const char* what) {
  if (error != NULL) printf("%s\n", lathe->error_message(error));
  expect(error == NULL, what);
  lathe->error_free(error);
}

static const char kText[] =
    "program \"sum\" stage imported {\n"
    "  symbol n bound 0..*\n"
    "  symbol past bound 0..*\n"
    "  module @main(%past: f32[past, 2], %x: f32[n, 2]) {\n"
    "    %present = concat(%past, %x) {axis = 0}\n"
    "    %axis = literal i64[1] {0}\n"
    "    %y = reduce_sum(%present, %axis) {keep_dims = false}\n"
    "    return %present as \"present\", %y as \"y\"\n"
    "  }\n"
    "}\n";

static lathe_program* load_text(void) {
  lathe_program* program = NULL;
  expect_done(lathe->program_load_memory(kText, sizeof kText - 1, NULL, &program), "load a text");
  return program;
}

static lathe_tensor* matrix(int64_t rows, float* values) {
  const int64_t dims[2] = {rows, 2};
  lathe_tensor* tensor = NULL;
  expect_done(lathe->tensor_wrap(LATHE_F32, dims, NULL, 2, values, NULL, NULL, &tensor), "wrap");
  return tensor;
}

static void test_signature(const lathe_program* program) {
  expect(lathe->program_input_count(program) == 2, "two inputs");
  expect(lathe->program_output_count(program) == 2, "two outputs");
  lathe_value_info info = LATHE_INIT(lathe_value_info);
  expect_done(lathe->program_input(program, 1, &info), "the second input");
  expect(strcmp(info.name, "x") == 0 && info.kind == LATHE_VALUE_TENSOR, "its name and kind");
  expect(info.element_type == LATHE_F32 && info.rank == 2, "its element type and rank");
  expect(info.dims[0] == -1 && info.dims[1] == 2, "its dims");
  expect(strcmp(info.dim_names[0], "n") == 0, "the name of its first dim");
  expect(strcmp(info.type, "f32[n, 2]") == 0, "its type as text");
  expect_error(lathe->program_output(program, 2, &info), LATHE_INVALID_ARGUMENT,
               "index 2 is out of range for 2 values", "an output beyond the last");
  /* A caller built for a version with fewer fields. */
  lathe_value_info old;
  memset(&old, 0x55, sizeof old);
  old.size = offsetof(lathe_value_info, kind);
  expect_done(lathe->program_input(program, 0, &old), "an older struct");
  expect(strcmp(old.name, "past") == 0 && old.rank == 0x55555555, "only its fields are written");
}

static void count_bytes(void* context, const char* text, size_t bytes) {
  (void)text;
  *(size_t*)context += bytes;
}

static void test_run(const lathe_program* program) {
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  float past[2] = {1, 2};
  float x[4] = {3, 4, 5, 6};
  float bound[2] = {0, 0};
  lathe_tensor* inputs[2] = {matrix(1, past), matrix(2, x)};
  const int64_t two = 2;
  lathe_tensor* outputs[2] = {NULL, NULL};
  expect_done(lathe->tensor_wrap(LATHE_F32, &two, NULL, 1, bound, NULL, NULL, &outputs[1]),
              "wrap an output");
  expect_done(lathe->session_run(session, NULL, inputs, 2, outputs, 2), "run");
  expect(bound[0] == 9 && bound[1] == 12, "a bound output holds the result");
  lathe->session_free(session); /* results outlive it */
  lathe->plan_free(plan);
  expect(lathe->tensor_rank(outputs[0]) == 2 && lathe->tensor_dims(outputs[0])[0] == 3,
         "the extents of a result");
  expect(lathe->tensor_bytes(outputs[0]) == 24 && lathe->tensor_count(outputs[0]) == 6, "its size");
  expect(((const float*)lathe->tensor_data(outputs[0]))[5] == 6, "its values");
  for (int i = 0; i < 2; ++i) {
    lathe->tensor_free(inputs[i]);
    lathe->tensor_free(outputs[i]);
  }
}

struct callback_memory {
  float values[16];
  int calls;
};

static void* give_memory(void* context, size_t index, lathe_element_type type, const int64_t* dims,
                         int rank, size_t bytes) {
  struct callback_memory* memory = context;
  (void)dims;
  ++memory->calls;
  if (type != LATHE_F32 || rank > 2 || bytes > sizeof memory->values / 2) return NULL;
  return memory->values + 8 * index;
}

static void test_output_callback(const lathe_program* program) {
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  struct callback_memory memory = {{0}, 0};
  lathe_run_options options = LATHE_INIT(lathe_run_options);
  options.output = give_memory;
  options.output_context = &memory;
  float past[2] = {1, 2};
  float x[8] = {3, 4, 5, 6, 7, 8, 9, 10};
  lathe_tensor* inputs[2] = {matrix(1, past), matrix(2, x)};
  lathe_tensor* outputs[2] = {NULL, NULL};
  expect_done(lathe->session_run(session, &options, inputs, 2, outputs, 2), "run");
  expect(memory.calls == 2, "the callback is called once per output");
  expect(memory.values[4] == 5 && memory.values[8] == 9, "results are in its memory");
  expect(lathe->tensor_data(outputs[1]) == memory.values + 8, "the tensors refer to it");
  for (int i = 0; i < 2; ++i) lathe->tensor_free(outputs[i]);
  lathe->tensor_free(inputs[1]);
  inputs[1] = matrix(4, x);
  outputs[0] = outputs[1] = NULL;
  expect_error(lathe->session_run(session, &options, inputs, 2, outputs, 2), LATHE_OUT_OF_MEMORY,
               "the output callback returned no memory for output 0",
               "a callback that returns NULL");
  expect(outputs[0] == NULL && outputs[1] == NULL, "a failed run returns no results");
  for (int i = 0; i < 2; ++i) lathe->tensor_free(inputs[i]);
  lathe->session_free(session);
  lathe->plan_free(plan);
}

static void test_states(lathe_program* program) {
  const char* past = "past";
  const char* present = "present";
  const char* wrong = "presents";
  expect_error(lathe->program_promote_states(program, &past, &wrong, 1), LATHE_INVALID_ARGUMENT, "",
               "an unknown pair");
  expect(lathe->program_input_count(program) == 2, "leaves the program unchanged");
  expect_done(lathe->program_promote_states(program, &past, &present, 1), "promote a state");
  expect(lathe->program_input_count(program) == 1, "a state is not an input");
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  float x[2] = {1, 2};
  lathe_tensor* input = matrix(1, x);
  lathe_tensor* output = NULL;
  for (int i = 0; i < 3; ++i) {
    lathe->tensor_free(output);
    output = NULL;
    expect_done(lathe->session_run(session, NULL, &input, 1, &output, 1), "a step");
  }
  expect(((const float*)lathe->tensor_data(output))[1] == 6, "steps add up");
  int64_t length = 0;
  expect_done(lathe->session_length(session, "past", &length), "the length of a state");
  expect(length == 3, "is three");
  expect_done(lathe->session_truncate(session, 1), "truncate");
  expect_done(lathe->session_length(session, "past", &length), "the length again");
  expect(length == 1, "is one");
  expect_done(lathe->session_reset(session), "reset");
  expect_error(lathe->session_length(session, "pest", &length), LATHE_INVALID_ARGUMENT, "",
               "an unknown state");
  lathe_memory_use use = LATHE_INIT(lathe_memory_use);
  expect_done(lathe->session_memory(session, &use), "memory use");
  expect(use.peak >= use.now && use.peak > 0, "is known");
  lathe->tensor_free(input);
  lathe->tensor_free(output);
  lathe->session_free(session);
  lathe->plan_free(plan);
}

struct counting_allocator {
  int blocks;
  int calls;
};

static void* counted_allocate(void* context, size_t bytes, size_t alignment) {
  struct counting_allocator* counter = context;
  ++counter->blocks;
  ++counter->calls;
  return aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

static void counted_deallocate(void* context, void* memory, size_t bytes) {
  (void)bytes;
  --((struct counting_allocator*)context)->blocks;
  free(memory);
}

static void test_allocator_and_limits(const lathe_program* program) {
  struct counting_allocator counter = {0, 0};
  lathe_allocator allocator = LATHE_INIT(lathe_allocator);
  allocator.allocate = counted_allocate;
  allocator.deallocate = counted_deallocate;
  allocator.context = &counter;
  lathe_session_options options = LATHE_INIT(lathe_session_options);
  options.allocator = &allocator;
  options.threads = 1;
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  expect_done(lathe->session_create(plan, &options, &session), "a session with an allocator");
  static float many[2000];
  float past[2] = {1, 2};
  lathe_tensor* inputs[2] = {matrix(1, past), matrix(1000, many)};
  lathe_tensor* outputs[2] = {NULL, NULL};
  expect_done(lathe->session_run(session, NULL, inputs, 2, outputs, 2), "run");
  lathe->session_free(session);
  expect(counter.calls > 0 && counter.blocks > 0, "results are in the allocator's memory");
  lathe->tensor_free(outputs[0]);
  lathe->tensor_free(outputs[1]);
  expect(counter.blocks == 0, "all of it is deallocated");

  options.allocator = NULL;
  options.memory_limit = 100;
  outputs[0] = outputs[1] = NULL;
  expect_done(lathe->session_create(plan, &options, &session), "a session with a limit");
  expect_error(lathe->session_run(session, NULL, inputs, 2, outputs, 2), LATHE_OUT_OF_MEMORY, "",
               "a run beyond its limit");
  lathe->session_free(session);

  lathe_cancel* cancel = NULL;
  expect_done(lathe->cancel_create(&cancel), "a cancel handle");
  lathe->cancel_set(cancel);
  lathe_run_options run = LATHE_INIT(lathe_run_options);
  run.cancel = cancel;
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  expect_error(lathe->session_run(session, &run, inputs, 2, outputs, 2), LATHE_INTERRUPTED, "",
               "a cancelled run");
  lathe->cancel_reset(cancel);
  expect_done(lathe->session_run(session, &run, inputs, 2, outputs, 2), "the next run");
  for (int i = 0; i < 2; ++i) {
    lathe->tensor_free(inputs[i]);
    lathe->tensor_free(outputs[i]);
  }
  lathe->cancel_free(cancel);
  lathe->session_free(session);
  lathe->plan_free(plan);
}

static void test_tensors(void) {
  const int64_t dims[2] = {2, 3};
  lathe_tensor* tensor = NULL;
  expect_done(lathe->tensor_create(LATHE_I64, dims, 2, &tensor), "a tensor");
  expect(lathe->tensor_bytes(tensor) == 48 && ((int64_t*)lathe->tensor_data(tensor))[5] == 0,
         "is zero-filled");
  lathe_tensor* items[2] = {tensor, tensor};
  lathe_tensor* sequence = NULL;
  expect_done(lathe->tensor_sequence(items, 2, &sequence), "a sequence");
  lathe->tensor_free(tensor);
  expect(lathe->tensor_kind(sequence) == LATHE_VALUE_SEQUENCE, "its kind");
  expect(lathe->tensor_item_count(sequence) == 2, "its items");
  expect_error(lathe->tensor_item(sequence, 2, &tensor), LATHE_INVALID_ARGUMENT,
               "index 2 is out of range for a sequence of 2 items", "an item beyond the last");
  expect_done(lathe->tensor_item(sequence, 1, &tensor), "an item");
  expect(lathe->tensor_count(tensor) == 6, "its elements");
  lathe->tensor_free(sequence);
  lathe->tensor_free(tensor);
  expect_done(lathe->tensor_create(LATHE_STRING, dims, 2, &tensor), "a tensor of strings");
  expect_done(lathe->tensor_set_string(tensor, 4, "a\0b", 3), "set a string");
  const char* text = NULL;
  size_t bytes = 0;
  expect_done(lathe->tensor_string(tensor, 4, &text, &bytes), "get it");
  expect(bytes == 3 && memcmp(text, "a\0b", 3) == 0, "zero bytes included");
  lathe->tensor_free(tensor);
  const int64_t negative = -1;
  expect_error(lathe->tensor_create(LATHE_F32, &negative, 1, &tensor), LATHE_INVALID_ARGUMENT, "",
               "a negative extent");
  expect_error(lathe->tensor_create((lathe_element_type)99, dims, 2, &tensor),
               LATHE_INVALID_ARGUMENT, "element type is 99", "an unknown element type");
  expect_error(lathe->tensor_create(LATHE_F32, dims, 2, NULL), LATHE_INVALID_ARGUMENT,
               "argument 'tensor' is NULL", "no output pointer");
}

static int logged = 0;
static void take_line(void* context, int level, const char* line) {
  (void)context;
  (void)line;
  if (level == 0) ++logged;
}

static void released(void* context) { ++*(int*)context; }

static void test_errors_and_log(void) {
  lathe_program* program = NULL;
  expect_error(lathe->program_load("no/such/file.onnx", NULL, &program), LATHE_IO,
               "cannot open 'no/such/file.onnx'", "a missing file");
  lathe_error* error = lathe->program_load_memory("<html>", 6, NULL, &program);
  expect(error != NULL && lathe->error_kind(error) == LATHE_INVALID_MODEL, "invalid bytes");
  expect(error != NULL && lathe->error_note(error, 1000) == NULL, "a note beyond the last");
  lathe->error_free(error);
  int count = 0;
  lathe_load_options options = LATHE_INIT(lathe_load_options);
  options.release = released;
  options.release_context = &count;
  expect_done(lathe->program_load_memory(kText, sizeof kText - 1, &options, &program),
              "load without a copy");
  lathe->program_free(program);
  expect(count == 1, "the memory is released once");
  expect(lathe->target_count() > 0 && lathe->target_name(1000) == NULL, "targets");
  lathe_compile_options compile = LATHE_INIT(lathe_compile_options);
  compile.target = "reff";
  program = load_text();
  lathe_plan* plan = NULL;
  expect_error(lathe->plan_compile(program, &compile, &plan), LATHE_INVALID_ARGUMENT,
               "unknown target 'reff' (did you mean 'ref'?)", "an unknown target");
  lathe->program_free(program);
  lathe->log_set_sink(take_line, NULL);
  lathe->log_set_sink(NULL, NULL);
  expect(logged == 0, "nothing was logged");
  lathe->error_free(NULL);
  lathe->tensor_free(NULL);
  lathe->program_free(NULL);
  lathe->plan_free(NULL);
  lathe->session_free(NULL);
  lathe->cancel_free(NULL);
}

static void append_text(void* to, const char* text, size_t bytes) {
  strncat((char*)to, text, bytes);
}

static char saved[1 << 16];
static size_t saved_bytes = 0;
static void keep_bytes(void* context, const char* text, size_t bytes) {
  (void)context;
  if (bytes <= sizeof saved) memcpy(saved, text, saved_bytes = bytes);
}

static void free_state(void* context, const char* past, const char* present, lathe_tensor* tensor) {
  if (past != NULL && present != NULL && lathe->tensor_dims(tensor)[0] == 1) ++*(size_t*)context;
  lathe->tensor_free(tensor);
}

static int end_after_one(void* context, const char* text, size_t bytes) {
  (void)text;
  (void)bytes;
  return (int)++*(size_t*)context;
}

static int prefer_seven(void* context, size_t prompt, const int32_t* tokens, size_t token_count,
                        float* logits, size_t vocabulary) {
  (void)tokens;
  *(size_t*)context += token_count;
  if (prompt == 0 && vocabulary == 16) logits[7] += 100;
  return token_count == 1 ? 0 : 5;
}

/* Model examples/counting: the token after n is n + 1; 15 is the end token. */
static void test_models(void) {
  lathe_model_config* config = NULL;
  expect_done(lathe->model_config_create("examples/counting", &config), "a configuration");
  expect_done(lathe->model_config_set_target(config, "ref"), "its target");
  lathe_model* model = NULL;
  expect_done(lathe->model_create(config, &model), "a model");
  lathe->model_config_free(config);
  expect(strcmp(lathe->model_type(model), "llama") == 0, "its type");
  expect(strcmp(lathe->model_device(model), "ref") == 0, "its target");
  lathe_generator_params* params = NULL;
  expect_done(lathe->generator_params_create(model, &params), "parameters");
  const lathe_text two = {"2", 1};
  expect_done(lathe->generator_params_set(params, "max_new_tokens", two), "an option");
  char text[64] = "";
  const lathe_text prompt = {"one", 3};
  expect_done(lathe->model_generate(model, params, prompt, NULL, append_text, text), "one call");
  expect(strcmp(text, "two three") == 0, "the answer");
  size_t pieces = 0;
  expect_error(lathe->model_generate_pieces(model, params, prompt, NULL, end_after_one, &pieces),
               LATHE_INTERRUPTED, "the text callback ended the generation after ",
               "a callback that ends it");
  expect(pieces == 1, "one piece");
  lathe_generator* generator = NULL;
  expect_done(lathe->generator_create(model, params, &generator), "a generator");
  lathe->generator_params_free(params);
  const int32_t tokens[1] = {3};
  expect_done(lathe->generator_append_tokens(generator, 0, tokens, 1), "a prompt");
  size_t seen = 0;
  expect_done(lathe->generator_set_hook(generator, prefer_seven, &seen), "a hook");
  expect_done(lathe->generator_generate_next_token(generator, NULL), "a step");
  expect_error(lathe->generator_generate_next_token(generator, NULL), LATHE_INVALID_ARGUMENT,
               "the hook returned 5 for prompt 0 after 2 tokens", "a hook that fails the step");
  expect_done(lathe->generator_set_hook(generator, NULL, NULL), "no hook");
  while (!lathe->generator_is_done(generator)) {
    expect_done(lathe->generator_generate_next_token(generator, NULL), "another step");
  }
  size_t count = 0;
  expect_done(lathe->generator_sequence_count(generator, &count), "sequences");
  lathe_sequence sequence = LATHE_INIT(lathe_sequence);
  expect_done(lathe->generator_sequence(generator, 0, &sequence), "a sequence");
  expect(count == 1 && seen == 3 && sequence.token_count == 3 && sequence.prompt_tokens == 1 &&
             sequence.tokens[1] == 7 && sequence.tokens[2] == 8,
         "its tokens");
  expect(sequence.text.bytes == 11 && memcmp(sequence.text.data, "seven eight", 11) == 0, "text");
  expect(sequence.reason == LATHE_FINISHED_BY_LENGTH, "its end");
  const int32_t* ends = NULL;
  expect_done(lathe->model_end_tokens(model, &ends, &count), "end tokens");
  expect(count == 1 && ends[0] == 15, "the end token");
  size_t fork = 0;
  expect_done(lathe->generator_fork(generator, 0, NULL, &fork), "a fork");
  saved_bytes = 0;
  expect_done(lathe->generator_save(generator, 0, keep_bytes, NULL), "saved");
  size_t restored = 0;
  expect_done(lathe->generator_restore(generator, NULL, saved, saved_bytes, &restored), "restored");
  expect(fork == 1 && restored == 2 && lathe->generator_token_count(generator, 2) == 3, "prompts");
  size_t states = 0;
  expect_done(lathe->generator_export(generator, 2, free_state, &states), "exported");
  expect(states == 2, "its states");
  size_t added = 0;
  expect_done(lathe->generator_add_prompt(generator, NULL, tokens, 1, &added), "one more");
  expect(added == 3 && !lathe->generator_is_done(generator), "which is not done");
  lathe_sampled_token sampled = LATHE_INIT(lathe_sampled_token);
  expect_error(lathe->generator_sampled_token(generator, 0, 0, &sampled), LATHE_INVALID_ARGUMENT,
               "generated token 0 of sequence 0 is out of range for 0 recorded log-probabilities: "
               "set the option 'log_probabilities'",
               "no log-probabilities");
  lathe_tensor* ids = NULL;
  expect_error(lathe->generator_get_input(generator, "input_ids", &ids), LATHE_INVALID_ARGUMENT,
               "prompt 3 has 1 tokens, prompt 0 has 3: expected equal lengths",
               "prompts of unequal lengths");
  const uint32_t mask = 1u << 5;
  expect_done(lathe->generator_set_token_mask(generator, 3, &mask, 1), "a mask");
  expect_done(lathe->generator_generate_next_token(generator, NULL), "a masked step");
  const int32_t* chosen = NULL;
  expect_done(lathe->generator_next_tokens(generator, &chosen, &count), "its tokens");
  expect(count == 4 && chosen[3] == 5, "the only one that is allowed");
  expect_error(lathe->generator_append_embeddings(generator, 0, NULL, NULL, 0),
               LATHE_INVALID_ARGUMENT, "argument 'embeddings' is NULL", "no embeddings");
  lathe->model_free(model);
  expect_error(lathe->generator_sequence(generator, 9, &sequence), LATHE_INVALID_ARGUMENT,
               "sequence 9 is out of range for 4 sequences", "a sequence beyond the last");
  lathe_tensor* keys = NULL;
  expect_done(lathe->generator_get_output_of(generator, 0, "present.0.key", &keys), "an output");
  expect(lathe->tensor_rank(keys) == 4 && lathe->tensor_dims(keys)[0] == 1, "of one prompt");
  lathe->tensor_free(keys);
  expect_error(lathe->generator_get_output_of(generator, 4, "logits", &keys),
               LATHE_INVALID_ARGUMENT, "prompt 4 is out of range for 4 prompts",
               "a prompt beyond the last");
  lathe->generator_free(generator);
}

static void test_chat_template(void) {
  const char* source =
      "{% for i in range(9000) %}{% for k in range(9000) %}{% endfor %}{% endfor %}done";
  const lathe_text text = {source, strlen(source)};
  const lathe_text request = {"[{\"role\": \"user\", \"content\": \"Hi\"}]", 35};
  lathe_chat_template* chat = NULL;
  expect_done(lathe->chat_template_create(text, &chat), "a slow template");
  expect_done(lathe->chat_template_set_time_limit(chat, 0.02), "a time limit");
  size_t bytes = 0;
  expect_error(lathe->chat_template_render(chat, request, count_bytes, &bytes, NULL, NULL),
               LATHE_INVALID_ARGUMENT, "", "a template beyond its time limit");
  lathe_error* error = lathe->chat_template_render(chat, request, count_bytes, &bytes, NULL, NULL);
  expect(error != NULL && strstr(lathe->error_message(error), "20 ms") != NULL, "names the limit");
  lathe->error_free(error);
  expect_error(lathe->chat_template_set_time_limit(chat, -1), LATHE_INVALID_ARGUMENT,
               "the time limit is -1 seconds, expected 0 to ", "a negative limit");
  lathe->chat_template_free(chat);
}

static const char kModel[] =
    "<ir_version: 8, opset_import: [\"\" : 18]>\n"
    "g (float[2] x) => (float[2] y) <float[2] w = [\"location\" : \"w.bin\"]> { y = Add(x, w) }";

/* External data of a model in memory. */
static void test_data_files(void) {
  const float weights[2] = {3, 4};
  const lathe_data_file file = {"w.bin", weights, sizeof weights};
  int count = 0;
  lathe_load_options options = LATHE_INIT(lathe_load_options);
  options.data = &file;
  options.data_count = 1;
  options.release = released;
  options.release_context = &count;
  lathe_program* program = NULL;
  expect_done(lathe->program_load_memory(kModel, sizeof kModel - 1, &options, &program), "load");
  lathe_plan* plan = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  lathe->program_free(program);
  expect(count == 0, "the weights are retained");
  lathe_session* session = NULL;
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  float values[2] = {1, 2};
  const int64_t dims[1] = {2};
  lathe_tensor* input = NULL;
  lathe_tensor* output = NULL;
  expect_done(lathe->tensor_wrap(LATHE_F32, dims, NULL, 1, values, NULL, NULL, &input), "wrap");
  expect_done(lathe->session_run(session, NULL, &input, 1, &output, 1), "run");
  const float* sum = (const float*)lathe->tensor_data(output);
  expect(sum[0] == 4 && sum[1] == 6, "their sum");
  lathe->tensor_free(input);
  lathe->tensor_free(output);
  lathe->session_free(session);
  lathe->plan_free(plan);
  expect(count == 1, "the weights are released once");

  lathe_model_config* config = NULL;
  expect_done(lathe->model_config_create(NULL, &config), "a configuration");
  expect_done(
      lathe->model_config_wrap_model_data(config, "w", weights, sizeof weights, released, &count),
      "a file that is not copied");
  expect_error(lathe->model_config_wrap_model_data(config, NULL, weights, 1, released, &count),
               LATHE_INVALID_ARGUMENT, "argument 'name' is NULL", "without a name");
  expect(count == 2, "an error releases the data");
  expect_done(lathe->model_config_remove_model_data(config, "w"), "removed");
  expect(count == 3, "removing a file releases its data");
  lathe->model_config_free(config);
}

int main(void) {
  lathe = lathe_get_api(LATHE_API_VERSION);
  expect(lathe != NULL && lathe->version >= LATHE_API_VERSION, "the table");
#ifdef LATHE_EXPECTED_VERSION
  expect(LATHE_API_VERSION == LATHE_EXPECTED_VERSION && lathe->size > sizeof *lathe,
         "the header of an earlier version");
#endif
  expect(lathe_get_api(0) == NULL && lathe_get_api(1000000) == NULL, "other versions");
  if (lathe == NULL) return 1;
  expect(lathe->size >= sizeof(lathe_api), "its size");
  expect(strlen(lathe->version_text()) > 0, "the version");
  lathe_program* program = load_text();
  size_t bytes = 0;
  expect_done(lathe->program_print(program, count_bytes, &bytes), "print");
  expect(bytes > 100, "prints the program");
  test_signature(program);
  test_run(program);
  test_output_callback(program);
  test_allocator_and_limits(program);
  test_states(program);
  lathe->program_free(program);
  test_tensors();
  test_errors_and_log();
  test_models();
  test_chat_template();
  test_data_files();
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
