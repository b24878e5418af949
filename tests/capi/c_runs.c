/* SPDX-License-Identifier: MIT */
/* Runs on views, reasons of errors, polls, defaults and metadata, from C11. */
#include "check.h"

#include <math.h>
#include <stdint.h>
#include <time.h>

static const char kSum[] =
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

static lathe_view view_of(const int64_t* dims, int32_t rank, void* data) {
  lathe_view view = LATHE_INIT(lathe_view);
  view.type = LATHE_F32;
  view.rank = rank;
  view.dims = dims;
  view.data = data;
  return view;
}

static void test_views(void) {
  lathe_session* session = session_of(kSum, NULL);
  float past[2] = {1, 2};
  float x[8] = {3, 5, 0, 0, 4, 6, 0, 0};
  float y[2] = {0, 0};
  const int64_t one[2] = {1, 2};
  const int64_t two[2] = {2, 2};
  const int64_t strides[2] = {4, 1};
  lathe_view inputs[2] = {view_of(one, 2, past), view_of(two, 2, x)};
  inputs[1].strides = strides;
  lathe_view outputs[2] = {LATHE_INIT(lathe_view), view_of(two, 1, y)};
  expect_done(lathe->session_run_views(session, NULL, inputs, 2, outputs, 2), "run views");
  expect(y[0] == 8 && y[1] == 13, "a bound output holds the result");
  expect(outputs[1].value == NULL, "a bound output has no handle");
  const lathe_view* present = &outputs[0];
  expect(present->value != NULL && present->rank == 2 && present->dims[0] == 3 &&
             present->strides[0] == 2 && present->type == LATHE_F32,
         "a new result is described");
  expect(((const float*)present->data)[5] == 6, "its values");

  /* Room to spare, a handle as an input and as an output. */
  float room[32];
  memset(room, 0, sizeof room);
  lathe_view spare = LATHE_INIT(lathe_view);
  spare.data = room;
  spare.bytes = sizeof room;
  lathe_view again[2] = {spare, LATHE_INIT(lathe_view)};
  inputs[0] = (lathe_view)LATHE_INIT(lathe_view);
  inputs[0].value = present->value;
  lathe_tensor* bound = NULL;
  expect_done(lathe->tensor_create(LATHE_F32, two, 1, &bound), "a tensor");
  again[1].value = bound;
  expect_done(lathe->session_run_views(session, NULL, inputs, 2, again, 2), "run into room");
  expect(again[0].value != NULL && again[0].data == room && again[0].dims[0] == 5,
         "the result in its room");
  expect(room[9] == 6 && ((const float*)lathe->tensor_data(bound))[1] == 24, "both results");
  lathe->tensor_free(again[0].value);
  lathe->tensor_free(bound);
  lathe->tensor_free(outputs[0].value);
  lathe->session_free(session);
}

static void test_bad_views(void) {
  lathe_session* session = session_of(kSum, NULL);
  float past[2] = {1, 2};
  float x[4] = {3, 5, 4, 6};
  const int64_t one[2] = {1, 2};
  const int64_t two[2] = {2, 2};
  const int64_t wrong[3] = {1, 3, 1};
  const int64_t negative[2] = {-1, 2};
  const int64_t huge[2] = {INT64_MAX, 2};
  const lathe_view good[2] = {view_of(one, 2, past), view_of(two, 2, x)};
  lathe_view in[2] = {good[0], good[1]};
  lathe_view out[2] = {LATHE_INIT(lathe_view), LATHE_INIT(lathe_view)};
#define FAILS(kind, reason, part) \
  expect_error(lathe->session_run_views(session, NULL, in, 2, out, 2), kind, reason, part)
  in[1].type = LATHE_F64;
  FAILS(LATHE_INVALID_ARGUMENT, "type", "input 'x' is f64[2, 2], expected f32[n, 2]");
  in[1] = view_of(wrong, 3, x);
  FAILS(LATHE_INVALID_ARGUMENT, "rank", "input 'x' is f32[1, 3, 1]");
  in[1] = view_of(wrong, 2, x);
  FAILS(LATHE_INVALID_ARGUMENT, "shape", "input 'x': axis 1 has size 3, expected 2");
  in[1] = view_of(negative, 2, x);
  FAILS(LATHE_INVALID_ARGUMENT, "shape", "inputs[1]: axis 0 has size -1");
  in[1] = view_of(huge, 2, x);
  FAILS(LATHE_OUT_OF_MEMORY, NULL, "");
  in[1] = view_of(two, 2, NULL);
  FAILS(LATHE_INVALID_ARGUMENT, "missing_input", "inputs[1] has no data");
  in[1] = view_of(NULL, 2, x);
  FAILS(LATHE_INVALID_ARGUMENT, "rank", "inputs[1] has rank 2 with dims NULL");
  in[1] = view_of(two, 1000000, x);
  FAILS(LATHE_INVALID_ARGUMENT, "rank", "inputs[1] has rank 1000000");
  in[1] = good[1];
  in[1].type = 77;
  FAILS(LATHE_INVALID_ARGUMENT, NULL, "element type is 77");
  in[1].type = LATHE_STRING;
  FAILS(LATHE_INVALID_ARGUMENT, "type", "strings");
  in[1] = (lathe_view)LATHE_INIT(lathe_view);
  FAILS(LATHE_INVALID_ARGUMENT, "missing_input", "input 'x' requires a value");
  in[1] = good[1];
  in[0].size = 0;
  FAILS(LATHE_INVALID_ARGUMENT, NULL, "inputs[0].size is 0");
  in[0] = good[0];
  out[1] = view_of(two, 2, x);
  FAILS(LATHE_INVALID_ARGUMENT, "shape", "output 'y' is f32[2], but the bound tensor is f32[2, 2]");
  out[1].bytes = 4;
  FAILS(LATHE_INVALID_ARGUMENT, "shape", "the bound memory has 4 bytes");
  expect(out[0].value == NULL, "a failed run writes nothing");
#undef FAILS
  expect_error(lathe->session_run_views(session, NULL, in, 1, out, 2), LATHE_INVALID_ARGUMENT,
               "input_count", "got 1 inputs");
  expect_error(lathe->session_run_views(session, NULL, in, 2, out, (size_t)-1),
               LATHE_INVALID_ARGUMENT, "input_count", "outputs, 'sum' has 2");
  expect_error(lathe->session_run_views(session, NULL, NULL, 2, out, 2), LATHE_INVALID_ARGUMENT,
               NULL, "argument 'inputs' is NULL");
  expect_error(lathe->session_run_views(NULL, NULL, in, 2, out, 2), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'session' is NULL");
  lathe_tensor* none[2] = {NULL, NULL};
  lathe_tensor* results[2] = {NULL, NULL};
  expect_error(lathe->session_run(session, NULL, none, 2, results, 2), LATHE_INVALID_ARGUMENT,
               "missing_input", "argument 'inputs[0]' is NULL: input 'past' requires a value");
  lathe->session_free(session);
}

static void test_reasons(void) {
  lathe_program* program = NULL;
  expect_error(lathe->program_load("no/such/file.onnx", NULL, &program), LATHE_IO, "missing_file",
               "cannot open");
  expect_error(lathe->program_load_memory("nonsense", 8, NULL, &program), LATHE_INVALID_MODEL,
               "not_protobuf", "is not an ONNX model");
  const char cycle[] =
      "<ir_version: 8, opset_import: [\"\" : 18]>\n"
      "g (float[2] x) => (float[2] y) { y = Add(x, missing) }";
  expect_error(lathe->program_load_memory(cycle, sizeof cycle - 1, NULL, &program),
               LATHE_INVALID_MODEL, "bad_graph", "missing");
  expect_error(lathe->tensor_create(99, NULL, 0, NULL), LATHE_INVALID_ARGUMENT, "invalid_argument",
               "NULL");
}

struct polled {
  int calls;
  int last;
};
static int poll_until(void* context) {
  struct polled* state = context;
  return ++state->calls >= state->last;
}

static double now(void) {
  struct timespec time;
  timespec_get(&time, TIME_UTC);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* A loop that would run for hours. */
static const char kEndless[] =
    "program \"endless\" stage imported {\n"
    "  module @main(%x: f32[64]) {\n"
    "    %trips = literal i64[] {1000000000000}\n"
    "    %go = literal bool[] {true}\n"
    "    %y = loop(%trips, %go, %x) {carried = 1, body = @body}\n"
    "    return %y as \"y\"\n"
    "  }\n"
    "  module @body(%i: i64[], %c: bool[], %v: f32[64]) {\n"
    "    %w = sin(%v)\n"
    "    return %c as \"c\", %w as \"w\"\n"
    "  }\n"
    "}\n";

static void test_poll(void) {
  lathe_session* session = session_of(kEndless, NULL);
  float x[64];
  memset(x, 0, sizeof x);
  const int64_t dims[1] = {64};
  lathe_view input = view_of(dims, 1, x);
  lathe_view output = LATHE_INIT(lathe_view);
  struct polled state = {0, 3};
  lathe_run_options options = LATHE_INIT(lathe_run_options);
  options.poll = poll_until;
  options.poll_context = &state;
  const double begin = now();
  expect_error(lathe->session_run_views(session, &options, &input, 1, &output, 1),
               LATHE_INTERRUPTED, "interrupted", "interrupted by the caller's poll callback");
  const double seconds = now() - begin;
  expect(state.calls == 3, "asked until it ends the run");
  expect(seconds > 0.1 && seconds < 20, "about every 50 ms");
  state = (struct polled){0, 1};
  expect_error(lathe->session_run_views(session, &options, &input, 1, &output, 1),
               LATHE_INTERRUPTED, "interrupted", "poll");
  lathe->session_free(session);
}

/* A model whose compilation and load take longer than 50 ms: many instructions. */
static void test_poll_of_compilation(void) {
  const size_t lines = 6000;
  char* text = malloc(lines * 64 + 512);
  size_t at = (size_t)sprintf(text,
                              "<ir_version: 8, opset_import: [\"\" : 18]>\n"
                              "g (float[n, 8] x0) => (float[n, 8] y) {\n");
  for (size_t i = 0; i < lines; ++i) {
    at += (size_t)sprintf(text + at, "x%zu = Sin(x%zu)\n", i + 1, i);
  }
  at += (size_t)sprintf(text + at, "y = Cos(x%zu)\n}\n", lines);
  struct polled state = {0, 1};
  lathe_load_options load = LATHE_INIT(lathe_load_options);
  lathe_program* program = NULL;
  expect_done(lathe->program_load_memory(text, at, &load, &program), "load");
  lathe_compile_options compile = LATHE_INIT(lathe_compile_options);
  compile.poll = poll_until;
  compile.poll_context = &state;
  lathe_plan* plan = NULL;
  expect_error(lathe->plan_compile(program, &compile, &plan), LATHE_INTERRUPTED, "interrupted",
               "poll");
  expect(state.calls == 1 && plan == NULL, "the compilation is ended once");
  lathe->program_free(program);
  free(text);
}

/* Fields of protobuf messages. */
struct bytes {
  char data[1024];
  size_t size;
};
static void put_number(struct bytes* out, int field, int64_t value) {
  out->data[out->size++] = (char)(field << 3);
  uint64_t rest = (uint64_t)value;
  do {
    out->data[out->size++] = (char)((rest & 127) | (rest > 127 ? 128 : 0));
    rest >>= 7;
  } while (rest != 0);
}
static void put(struct bytes* out, int field, const void* data, size_t size) {
  out->data[out->size++] = (char)((field << 3) | 2);
  if (size > 127) out->data[out->size++] = (char)((size & 127) | 128);
  out->data[out->size++] = (char)(size > 127 ? size >> 7 : size);
  memcpy(out->data + out->size, data, size);
  out->size += size;
}
static void put_text(struct bytes* out, int field, const char* text) {
  put(out, field, text, strlen(text));
}
static void put_message(struct bytes* out, int field, const struct bytes* message) {
  put(out, field, message->data, message->size);
}

/* A ValueInfoProto f32[N, 2] with denotations; "w" has one axis. */
static struct bytes value_info(const char* name) {
  struct bytes first = {{0}, 0}, second = first, shape = first, tensor = first, type = first,
               info = first;
  put_text(&first, 2, "N");
  put_text(&first, 3, "DATA_BATCH");
  put_number(&second, 1, 2);
  if (strcmp(name, "w") != 0) put_message(&shape, 1, &first);
  put_message(&shape, 1, &second);
  put_number(&tensor, 1, 1);
  put_message(&tensor, 2, &shape);
  put_message(&type, 1, &tensor);
  put_text(&type, 6, "IMAGE");
  put_text(&info, 1, name);
  put_message(&info, 2, &type);
  return info;
}

static struct bytes annotated_model(void) {
  struct bytes node = {{0}, 0}, tensor = node, graph = node, model = node, opset = node,
               pair = node, info;
  put_text(&node, 1, "x");
  put_text(&node, 1, "w");
  put_text(&node, 2, "y");
  put_text(&node, 4, "Add");
  const float weights[2] = {10, 20};
  put_number(&tensor, 1, 2);
  put_number(&tensor, 2, 1);
  put_text(&tensor, 8, "w");
  put(&tensor, 9, weights, sizeof weights);
  put_message(&graph, 1, &node);
  put_text(&graph, 2, "annotated");
  put_message(&graph, 5, &tensor);
  put_text(&graph, 10, "about the graph");
  info = value_info("x");
  put_message(&graph, 11, &info);
  info = value_info("w");
  put_message(&graph, 11, &info);
  info = value_info("y");
  put_message(&graph, 12, &info);
  put_number(&model, 1, 8);
  put_text(&model, 2, "maker");
  put_text(&model, 3, "1.2");
  put_text(&model, 4, "org.example");
  put_number(&model, 5, 42);
  put_text(&model, 6, "about the model");
  put_message(&model, 7, &graph);
  put_number(&opset, 2, 18);
  put_message(&model, 8, &opset);
  put_text(&pair, 1, "author");
  put_text(&pair, 2, "someone");
  put_message(&model, 14, &pair);
  return model;
}

static void test_model_info(void) {
  const struct bytes model = annotated_model();
  lathe_program* program = NULL;
  expect_done(lathe->program_load_memory(model.data, model.size, NULL, &program), "load bytes");
  if (program == NULL) return;
  lathe_program_info info = LATHE_INIT(lathe_program_info);
  expect_done(lathe->program_info(program, &info), "the model's information");
  expect(equal(info.producer, "maker") && equal(info.producer_version, "1.2"), "the producer");
  expect(equal(info.domain, "org.example") && info.model_version == 42, "domain and version");
  expect(equal(info.description, "about the model"), "the description");
  expect(equal(info.graph_name, "annotated"), "the graph's name");
  expect(equal(info.graph_description, "about the graph"), "the graph's description");
  const char* key = NULL;
  const char* value = NULL;
  expect(lathe->program_metadata_count(program) == 1, "one pair");
  expect_done(lathe->program_metadata(program, 0, &key, &value), "the pair");
  expect(equal(key, "author") && equal(value, "someone"), "its key and value");
  expect_error(lathe->program_metadata(program, 1, &key, &value), LATHE_INVALID_ARGUMENT, NULL,
               "index 1 is out of range for 1 pairs");
  lathe_value_info input = LATHE_INIT(lathe_value_info);
  expect_done(lathe->program_input(program, 0, &input), "the input");
  expect(equal(input.denotation, "IMAGE") && equal(input.dim_denotations[0], "DATA_BATCH") &&
             equal(input.dim_denotations[1], "") && input.has_default == 0,
         "its denotations");
  expect(lathe->program_input_count(program) == 1 && lathe->program_default_count(program) == 1,
         "the initialiser is no input");
  expect_done(lathe->program_default(program, 0, &input), "its default");
  expect(equal(input.name, "w") && input.rank == 1 && input.dims[0] == 2 && input.has_default,
         "name and shape of the default");
  lathe->program_free(program);
}

static void test_defaults(void) {
  lathe_program* program = NULL;
  const char text[] =
      "<ir_version: 8, opset_import: [\"\" : 18]>\n"
      "g (float[n, 2] x, float[2] w = {10, 20}) => (float[n, 2] y) { y = Add(x, w) }";
  const char* fed[1] = {"w"};
  lathe_load_options options = LATHE_INIT(lathe_load_options);
  options.overridden_initialisers = fed;
  options.overridden_initialiser_count = 1;
  expect_done(lathe->program_load_memory(text, sizeof text - 1, &options, &program), "load");
  if (program == NULL) return;
  lathe_value_info info = LATHE_INIT(lathe_value_info);
  expect_done(lathe->program_input(program, 1, &info), "the second input");
  expect(equal(info.name, "w") && info.has_default && lathe->program_default_count(program) == 0,
         "an input with a default");
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  float x[2] = {1, 2};
  float w[2] = {5, 6};
  const int64_t dims[2] = {1, 2};
  lathe_view inputs[2] = {view_of(dims, 2, x), LATHE_INIT(lathe_view)};
  float y[2] = {0, 0};
  lathe_view output = view_of(dims, 2, y);
  expect_done(lathe->session_run_views(session, NULL, inputs, 2, &output, 1), "run, default");
  expect(y[0] == 11 && y[1] == 22, "the default is used");
  inputs[1] = view_of(dims + 1, 1, w);
  expect_done(lathe->session_run_views(session, NULL, inputs, 2, &output, 1), "run, value");
  expect(y[0] == 6 && y[1] == 8, "a value replaces it");
  lathe_tensor* handles[2] = {NULL, NULL};
  lathe_tensor* result = NULL;
  expect_done(lathe->tensor_wrap(LATHE_F32, dims, NULL, 2, x, NULL, NULL, &handles[0]), "wrap");
  expect_done(lathe->session_run(session, NULL, handles, 2, &result, 1), "run handles, default");
  expect(result != NULL && ((const float*)lathe->tensor_data(result))[1] == 22, "its result");
  lathe->tensor_free(result);
  lathe->tensor_free(handles[0]);
  lathe->session_free(session);
  lathe->plan_free(plan);
  lathe->program_free(program);
}

static void test_command(void) {
  int code = -1;
  const char* version[1] = {"--version"};
  expect_done(lathe->run_command(version, 1, &code), "run a command");
  expect(code == 0, "its exit code");
  const char* wrong[2] = {"inspect", "no/such/file.onnx"};
  expect_done(lathe->run_command(wrong, 2, &code), "run a command that fails");
  expect(code == 7, "the exit code of a missing file");
  const char* null[1] = {NULL};
  expect_error(lathe->run_command(null, 1, &code), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'arguments[0]' is NULL");
  expect_error(lathe->run_command(version, 1, NULL), LATHE_INVALID_ARGUMENT, NULL, "exit_code");
}

/* Time of a run of a one-op model beyond that of its kernel. */
static void measure(void) {
  lathe_session* session = session_of(
      "program \"relu\" stage imported {\n  module @main(%x: f32[4]) {\n    %y = relu(%x)\n"
      "    return %y as \"y\"\n  }\n}\n",
      NULL);
  float x[4] = {-1, 2, -3, 4};
  float y[4];
  const int64_t dims[1] = {4};
  const lathe_view input = view_of(dims, 1, x);
  lathe_view output = view_of(dims, 1, y);
  const int runs = 200000;
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double begin = now();
    for (int i = 0; i < runs; ++i) {
      lathe_error* error = lathe->session_run_views(session, NULL, &input, 1, &output, 1);
      if (error != NULL) expect_done(error, "run");
    }
    best = fmin(best, (now() - begin) / runs);
  }
  expect(y[0] == 0 && y[3] == 4, "the result of the measured runs");
  printf("session_run_views of one relu: %.0f ns\n", best * 1e9);
  lathe->session_free(session);
}

int main(void) {
  lathe = lathe_get_api(LATHE_API_VERSION);
  if (lathe == NULL) return 1;
  test_views();
  test_bad_views();
  test_reasons();
  test_poll();
  test_poll_of_compilation();
  test_model_info();
  test_defaults();
  test_command();
  measure();
  return finish();
}
