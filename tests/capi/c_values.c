/* SPDX-License-Identifier: MIT */
/* Optionals, maps and strings; programs inferred, written and verified; settings of models. */
#include "check.h"

static const char kSum[] =
    "program \"sum\" stage imported {\n"
    "  symbol n bound 0..64\n"
    "  symbol past bound 0..*\n"
    "  module @main(%past: f32[past, 2], %x: f32[n, 2]) {\n"
    "    %present = concat(%past, %x) {axis = 0}\n"
    "    %axis = literal i64[1] {0}\n"
    "    %y = reduce_sum(%present, %axis) {keep_dims = false}\n"
    "    return %present as \"present\", %y as \"y\"\n"
    "  }\n"
    "}\n";

static lathe_tensor* strings_of(const char* const* texts, int64_t count) {
  lathe_tensor* tensor = NULL;
  expect_done(lathe->tensor_create(LATHE_STRING, &count, 1, &tensor), "strings");
  lathe_text list[8];
  for (int64_t i = 0; i < count; ++i) list[i] = (lathe_text){texts[i], strlen(texts[i])};
  expect_done(lathe->tensor_set_strings(tensor, list, (size_t)count), "set strings");
  return tensor;
}

static void test_strings(void) {
  const char* texts[3] = {"one", "", "three"};
  lathe_tensor* tensor = strings_of(texts, 3);
  lathe_text read[3];
  expect_done(lathe->tensor_strings(tensor, read, 3), "read strings");
  expect(read[0].bytes == 3 && equal(read[2].data, "three") && read[1].bytes == 0, "their texts");
  expect_error(lathe->tensor_strings(tensor, read, 2), LATHE_INVALID_ARGUMENT, "shape",
               "got room for 2 texts, the tensor has 3");
  expect_error(lathe->tensor_strings(tensor, NULL, 3), LATHE_INVALID_ARGUMENT, NULL, "texts");
  expect_error(lathe->tensor_strings(NULL, read, 3), LATHE_INVALID_ARGUMENT, NULL, "tensor");
  const lathe_text bad[3] = {{"a", 1}, {NULL, 4}, {"c", 1}};
  expect_error(lathe->tensor_set_strings(tensor, bad, 3), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'texts' is NULL for 4 bytes");
  expect_done(lathe->tensor_strings(tensor, read, 3), "read again");
  expect(equal(read[0].data, "one"), "a failed call changes nothing");
  lathe->tensor_free(tensor);
}

static void test_maps(void) {
  lathe_tensor* none = NULL;
  expect_done(lathe->tensor_none(&none), "nothing");
  expect(lathe->tensor_kind(none) == LATHE_VALUE_NONE, "its kind");
  const char* names[3] = {"b", "c", "a"};
  lathe_tensor* keys = strings_of(names, 3);
  float numbers[3] = {2, 3, 1};
  lathe_tensor* values[3];
  for (int i = 0; i < 3; ++i) {
    expect_done(lathe->tensor_wrap(LATHE_F32, NULL, NULL, 0, &numbers[i], NULL, NULL, &values[i]),
                "a scalar");
  }
  lathe_tensor* map = NULL;
  expect_done(lathe->tensor_map(keys, values, 3, &map), "a map");
  expect(lathe->tensor_kind(map) == LATHE_VALUE_MAP, "its kind");
  lathe_tensor* sorted = NULL;
  lathe_tensor* items = NULL;
  expect_done(lathe->tensor_map_items(map, &sorted, &items), "its items");
  lathe_text texts[3];
  expect_done(lathe->tensor_strings(sorted, texts, 3), "its keys");
  expect(equal(texts[0].data, "a") && equal(texts[2].data, "c"), "ascending keys");
  lathe_tensor* first = NULL;
  expect_done(lathe->tensor_item(items, 0, &first), "its first value");
  expect(*(const float*)lathe->tensor_data(first) == 1, "the value of its key");
  expect_error(lathe->tensor_map(keys, values, 2, &map), LATHE_INVALID_ARGUMENT, "shape",
               "got 3 keys for 2 values");
  expect_error(lathe->tensor_map(values[0], values, 1, &map), LATHE_INVALID_ARGUMENT, "type",
               "the keys are f32[], expected i64[n] or string[n]");
  expect_error(lathe->tensor_map_items(keys, &sorted, &items), LATHE_INVALID_ARGUMENT, "type",
               "is not a map");
  const char* twice[2] = {"a", "a"};
  lathe_tensor* same = strings_of(twice, 2);
  lathe_tensor* other = NULL;
  expect_error(lathe->tensor_map(same, values, 2, &other), LATHE_INVALID_ARGUMENT, NULL,
               "not distinct");
  lathe->tensor_free(values[1]);
  values[1] = NULL;
  expect_error(lathe->tensor_map(keys, values, 3, &other), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'values[1]' is NULL");
  lathe->tensor_free(none);
  lathe->tensor_free(map);
  lathe->tensor_free(keys);
  lathe->tensor_free(same);
  lathe->tensor_free(sorted);
  lathe->tensor_free(items);
  lathe->tensor_free(first);
  lathe->tensor_free(values[0]);
  lathe->tensor_free(values[2]);
}

struct seen {
  char types[2][64];
  size_t count;
};
static void see(void* context, size_t index, const lathe_value_info* info) {
  struct seen* seen = context;
  if (index < 2) snprintf(seen->types[index], sizeof seen->types[0], "%s", info->type);
  ++seen->count;
}

static void test_infer(void) {
  lathe_program* program = load_text(kSum);
  const int64_t past[2] = {-1, 2};
  const int64_t x[2] = {3, 2};
  const int64_t wide[2] = {3, 4};
  const int64_t many[2] = {65, 2};
  lathe_view inputs[2] = {LATHE_INIT(lathe_view), LATHE_INIT(lathe_view)};
  inputs[0].rank = inputs[1].rank = 2;
  inputs[0].dims = past;
  inputs[1].dims = x;
  struct seen seen;
  memset(&seen, 0, sizeof seen);
  expect_done(lathe->program_infer(program, inputs, 2, see, &seen), "infer");
  expect(seen.count == 2 && equal(seen.types[0], "f32[past + 3, 2]"), "an inferred type");
  inputs[0].dims = x;
  expect_done(lathe->program_infer(program, inputs, 2, see, &seen), "infer constants");
  expect(equal(seen.types[0], "f32[6, 2]") && equal(seen.types[1], "f32[2]"), "constant types");
  inputs[1].dims = wide;
  expect_error(lathe->program_infer(program, inputs, 2, see, &seen), LATHE_INVALID_ARGUMENT,
               "shape", "input 'x': axis 1 has size 4, expected 2");
  inputs[1].dims = many;
  expect_error(lathe->program_infer(program, inputs, 2, see, &seen), LATHE_INVALID_ARGUMENT,
               "shape", "axis 0 has size 65, expected 'n' in 0..64");
  inputs[1].dims = x;
  inputs[1].rank = 3;
  expect_error(lathe->program_infer(program, inputs, 2, see, &seen), LATHE_INVALID_ARGUMENT, "rank",
               "input 'x' has rank 3, expected f32[n, 2]");
  inputs[1].rank = -7;
  expect_error(lathe->program_infer(program, inputs, 2, see, &seen), LATHE_INVALID_ARGUMENT, "rank",
               "rank -7");
  inputs[1].rank = 2;
  inputs[1].type = LATHE_I32;
  expect_error(lathe->program_infer(program, inputs, 2, see, &seen), LATHE_INVALID_ARGUMENT, "type",
               "input 'x' is i32[3, 2]");
  expect_error(lathe->program_infer(program, inputs, 1, see, &seen), LATHE_INVALID_ARGUMENT,
               "input_count", "got 1 inputs");
  expect_error(lathe->program_infer(program, inputs, 2, NULL, NULL), LATHE_INVALID_ARGUMENT, NULL,
               "sink");
  lathe->program_free(program);
}

struct text {
  char data[1 << 16];
  size_t bytes;
};
static void keep(void* context, const char* data, size_t bytes) {
  struct text* text = context;
  if (text->bytes + bytes + 1 > sizeof text->data) return;
  memcpy(text->data + text->bytes, data, bytes);
  text->bytes += bytes;
  text->data[text->bytes] = 0;
}

static void test_write(void) {
  lathe_program* program = load_text(kSum);
  static struct text text;
  const char* formats[3] = {"text", "json", "dot"};
  const char* parts[3] = {"reduce_sum(%present", "\"op\"", "digraph"};
  for (int i = 0; i < 3; ++i) {
    memset(&text, 0, sizeof text);
    expect_done(lathe->program_write(program, formats[i], keep, &text), "write");
    expect(strstr(text.data, parts[i]) != NULL, formats[i]);
  }
  expect_error(lathe->program_write(program, "yaml", keep, &text), LATHE_INVALID_ARGUMENT, NULL,
               "format is 'yaml', expected one of: text, json, dot");
  lathe->program_free(program);
}

static int stop(void* context) {
  (void)context;
  return 1;
}

static void test_verify(void) {
  lathe_program* program = load_text(kSum);
  float past[2] = {1, 2};
  float x[4] = {3, 4, 5, 6};
  const int64_t one[2] = {1, 2};
  const int64_t two[2] = {2, 2};
  lathe_tensor* inputs[2];
  expect_done(lathe->tensor_wrap(LATHE_F32, one, NULL, 2, past, NULL, NULL, &inputs[0]), "wrap");
  expect_done(lathe->tensor_wrap(LATHE_F32, two, NULL, 2, x, NULL, NULL, &inputs[1]), "wrap");
  static struct text text;
  int passes = 0;
  expect_done(lathe->program_verify(program, NULL, inputs, 2, keep, &text, &passes), "verify");
  expect(passes == 1, "all stages are equal");
  expect(strstr(text.data, "\"passed\":true") != NULL && strstr(text.data, "\"stages\":[{") != NULL,
         "the report");
  lathe_verify_options options = LATHE_INIT(lathe_verify_options);
  options.target = "cqu";
  expect_error(lathe->program_verify(program, &options, inputs, 2, NULL, NULL, &passes),
               LATHE_INVALID_ARGUMENT, NULL, "unknown target 'cqu'");
  options.target = "null";
  expect_error(lathe->program_verify(program, &options, inputs, 2, NULL, NULL, &passes),
               LATHE_INVALID_ARGUMENT, NULL, "computes no results");
  options.target = NULL;
  options.tolerance = -1;
  expect_error(lathe->program_verify(program, &options, inputs, 2, NULL, NULL, &passes),
               LATHE_INVALID_ARGUMENT, NULL, "tolerance is -1");
  options.tolerance = 0;
  options.poll = stop;
  expect_error(lathe->program_verify(program, NULL, inputs, 1, NULL, NULL, &passes),
               LATHE_INVALID_ARGUMENT, "input_count", "got 1 inputs");
  lathe->tensor_free(inputs[0]);
  lathe->tensor_free(inputs[1]);
  lathe->program_free(program);
}

static void test_settings(void) {
  lathe_model_config* config = NULL;
  expect_done(lathe->model_config_create("examples/counting", &config), "a configuration");
  lathe_tokenizer* tokenizer = NULL;
  expect_done(lathe->model_config_tokenizer(config, &tokenizer), "its tokenizer");
  expect(tokenizer != NULL && lathe->tokenizer_size(tokenizer) > 0, "its tokens");
  lathe->tokenizer_free(tokenizer);
  const char overlay[] = "{\"search\": {\"max_length\": 11}}";
  expect_done(lathe->model_config_overlay(config, (lathe_text){overlay, sizeof overlay - 1}),
              "an overlay");
  lathe_model* model = NULL;
  expect_done(lathe->model_create(config, &model), "a model");
  static struct text text;
  expect_done(lathe->model_setting(model, "search.max_length", keep, &text), "a setting");
  expect(equal(text.data, "11"), "its value");
  memset(&text, 0, sizeof text);
  expect_done(lathe->model_setting(model, "", keep, &text), "all settings");
  expect(text.data[0] == '{' && strstr(text.data, "\"model\":{") != NULL, "an object");
  expect_error(lathe->model_setting(model, "search.nothing.0", keep, &text), LATHE_INVALID_ARGUMENT,
               "unknown_name", "genai_config.json has no 'search.nothing.0'");
  lathe->model_free(model);
  lathe->model_config_free(config);

  const char* target = NULL;
  expect(equal(lathe->provider_find("rocmexecutionprovider", &target), "ROCM") ||
             equal(lathe->provider_find("ROCMExecutionProvider", &target), "ROCM"),
         "a provider");
  expect(equal(target, "gpu"), "its target");
  expect(lathe->provider_find("nobody", NULL) == NULL && lathe->provider_find(NULL, NULL) == NULL,
         "unknown providers");
  size_t count = 0;
  while (lathe->provider_name(count) != NULL) ++count;
  expect(count > 5, "all providers");
}

int main(void) {
  lathe = lathe_get_api(LATHE_API_VERSION);
  if (lathe == NULL) return 1;
  test_strings();
  test_maps();
  test_infer();
  test_write();
  test_verify();
  test_settings();
  return finish();
}
