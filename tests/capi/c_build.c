/* SPDX-License-Identifier: MIT */
/* Programs built instruction by instruction, ops described, ops of the caller. */
#include "check.h"

struct text {
  char data[1 << 14];
  size_t bytes;
};
static void keep(void* context, const char* data, size_t bytes) {
  struct text* text = context;
  if (text->bytes + bytes + 1 > sizeof text->data) return;
  memcpy(text->data + text->bytes, data, bytes);
  text->bytes += bytes;
  text->data[text->bytes] = 0;
}

static lathe_text json(const char* text) { return (lathe_text){text, strlen(text)}; }

static lathe_error* instruct(lathe_module* module, const char* op, const char* attributes, size_t a,
                             size_t b, size_t* result) {
  const size_t operands[2] = {a, b};
  return lathe->module_instruction(module, op, json(attributes), operands,
                                   b == LATHE_NO_VALUE ? 1 : 2, NULL, 0, result, 1);
}

static lathe_session* compile(const lathe_program* program) {
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  if (plan != NULL) expect_done(lathe->session_create(plan, NULL, &session), "a session");
  lathe->plan_free(plan);
  return session;
}

static lathe_view view_of(const int64_t* dims, int32_t rank, float* data) {
  lathe_view view = LATHE_INIT(lathe_view);
  view.type = LATHE_F32;
  view.rank = rank;
  view.dims = dims;
  view.data = data;
  return view;
}

/* y = softmax(x + bias) over a named batch. */
static void test_build(void) {
  lathe_program* program = NULL;
  lathe_module* main = NULL;
  expect_done(lathe->program_create("built", &program), "an empty program");
  expect_done(lathe->module_create(program, "main", &main), "its main module");
  const int64_t preferred[2] = {8, 1};
  expect_done(lathe->program_symbol(program, "batch", 1, 16, preferred, 2), "a symbol");
  size_t x = 0, bias = 0, sum = 0, y = 0;
  expect_done(lathe->module_parameter(main, "x", "f32[batch, 2]", &x), "a parameter");
  float numbers[2] = {0, 100};
  const int64_t two = 2;
  lathe_tensor* tensor = NULL;
  expect_done(lathe->tensor_wrap(LATHE_F32, &two, NULL, 1, numbers, NULL, NULL, &tensor), "wrap");
  expect_done(lathe->module_literal(main, tensor, &bias), "a literal");
  lathe->tensor_free(tensor);
  numbers[1] = 0; /* literals are copies */
  expect_done(instruct(main, "add", "", x, bias, &sum), "add");
  expect_done(instruct(main, "softmax", "{\"axis\": -1}", sum, LATHE_NO_VALUE, &y), "softmax");
  const char* names[1] = {"y"};
  expect_done(lathe->module_return(main, &y, names, 1), "return");

  lathe_value_info info = LATHE_INIT(lathe_value_info);
  expect_done(lathe->program_input(program, 0, &info), "the input");
  expect(equal(info.name, "x") && equal(info.type, "f32[batch, 2]"), "its type");
  expect_done(lathe->program_output(program, 0, &info), "the output");
  expect(equal(info.name, "y") && equal(info.type, "f32[batch, 2]"), "its type");

  expect(lathe->module_size(main) == 5, "parameter, literal, two instructions, return");
  lathe_instruction_info entry = LATHE_INIT(lathe_instruction_info);
  expect_done(lathe->module_at(main, 0, &entry), "the first entry");
  expect(equal(entry.op, "parameter") && equal(entry.name, "x") && entry.results[0] == x,
         "a parameter");
  expect_done(lathe->module_at(main, 3, &entry), "the fourth entry");
  expect(equal(entry.op, "softmax") && entry.operands[0] == sum && entry.results[0] == y &&
             equal(entry.types[0], "f32[batch, 2]") && equal(entry.attributes, "{\"axis\":-1}"),
         "an instruction");
  expect_done(lathe->module_at(main, 4, &entry), "the last entry");
  expect(equal(entry.op, "return") && entry.operand_count == 1 && entry.operands[0] == y,
         "the results");
  expect_error(lathe->module_at(main, 5, &entry), LATHE_INVALID_ARGUMENT, NULL,
               "index 5 is out of range for 5 instructions");
  expect_done(lathe->module_literal_at(main, 1, &tensor), "the literal");
  expect(((const float*)lathe->tensor_data(tensor))[1] == 100, "its value");
  lathe->tensor_free(tensor);
  expect_error(lathe->module_literal_at(main, 2, &tensor), LATHE_INVALID_ARGUMENT, NULL,
               "entry 2 of 5 is not a literal");

  lathe_session* session = compile(program);
  float values[4] = {1, 2, 3, 4};
  const int64_t dims[2] = {2, 2};
  const lathe_view input = view_of(dims, 2, values);
  float results[4] = {0, 0, 0, 0};
  lathe_view output = view_of(dims, 2, results);
  expect_done(lathe->session_run_views(session, NULL, &input, 1, &output, 1), "run");
  expect(results[0] < 1e-6F && results[1] > 0.999F && results[3] > 0.999F, "its results");
  lathe->session_free(session);
  lathe->program_free(program);
}

static void test_bodies(void) {
  lathe_program* program = NULL;
  lathe_module *main = NULL, *yes = NULL, *no = NULL;
  expect_done(lathe->program_create(NULL, &program), "a program");
  expect_done(lathe->module_create(program, "main", &main), "main");
  expect_done(lathe->module_create(program, "yes", &yes), "a body");
  expect_done(lathe->module_create(program, "no", &no), "another");
  size_t condition = 0, x = 0, inner = 0, value = 0;
  expect_done(lathe->module_parameter(main, "condition", "bool[]", &condition), "a parameter");
  expect_done(lathe->module_parameter(main, "x", "f32[n]", &x), "another");
  lathe_module* bodies[2] = {yes, no};
  const size_t operands[2] = {condition, x};
  size_t y = 0;
  expect_error(lathe->module_instruction(main, "if", json(""), operands, 2, bodies, 2, &y, 1),
               LATHE_INVALID_ARGUMENT, NULL, "body 'yes' has not returned");
  const char* ops[2] = {"neg", "exp"};
  for (int i = 0; i < 2; ++i) {
    expect_done(lathe->module_parameter(bodies[i], "x", "f32[n]", &inner), "a captured value");
    expect_done(instruct(bodies[i], ops[i], "", inner, LATHE_NO_VALUE, &value), "its body");
    expect_done(lathe->module_return(bodies[i], &value, NULL, 1), "its result");
  }
  expect_error(lathe->module_parameter(yes, "z", "f32[]", &inner), LATHE_INVALID_ARGUMENT, NULL,
               "module 'yes' has returned");
  lathe_module* same[2] = {yes, yes};
  expect_error(lathe->module_instruction(main, "if", json(""), operands, 2, same, 2, &y, 1),
               LATHE_INVALID_ARGUMENT, NULL, "body 'yes' is given twice");
  expect_error(lathe->module_instruction(main, "if", json(""), operands, 2, bodies, 1, &y, 1),
               LATHE_INVALID_ARGUMENT, NULL, "if: got 1 bodies, expected 2");
  expect_done(lathe->module_instruction(main, "if", json(""), operands, 2, bodies, 2, &y, 1), "if");
  expect_error(lathe->module_instruction(main, "if", json(""), operands, 2, bodies, 2, &y, 1),
               LATHE_INVALID_ARGUMENT, NULL, "is main or the body of another instruction");
  expect_done(lathe->module_return(main, &y, NULL, 1), "return");
  expect(lathe->program_module_count(program) == 3, "three modules");
  lathe_module* found = NULL;
  expect_done(lathe->program_module(program, 1, &found), "the second module");
  expect(found == yes && equal(lathe->module_name(found), "yes"), "it is the body");
  lathe_session* session = compile(program);
  lathe_tensor* inputs[2] = {NULL, NULL};
  lathe_tensor* output = NULL;
  const int64_t one = 1;
  expect_done(lathe->tensor_create(LATHE_BOOL, NULL, 0, &inputs[0]), "a condition");
  expect_done(lathe->tensor_create(LATHE_F32, &one, 1, &inputs[1]), "a value");
  expect_done(lathe->session_run(session, NULL, inputs, 2, &output, 1), "run");
  expect(*(const float*)lathe->tensor_data(output) == 1, "the second body ran");
  lathe->tensor_free(inputs[0]);
  lathe->tensor_free(inputs[1]);
  lathe->tensor_free(output);
  lathe->session_free(session);
  lathe->program_free(program);
}

static void test_bad_instructions(void) {
  lathe_program* program = NULL;
  lathe_module* main = NULL;
  expect_done(lathe->program_create("bad", &program), "a program");
  expect_done(lathe->module_create(program, "main", &main), "main");
  size_t x = 0, y = 0;
  const size_t none[2] = {0, 77};
#define FAILS(call, kind, part) expect_error(call, kind, NULL, part)
  FAILS(lathe->module_parameter(main, "x", "f32[", &x), LATHE_INVALID_ARGUMENT, "is not a type");
  FAILS(lathe->module_parameter(main, "x", "f33[2]", &x), LATHE_INVALID_ARGUMENT, "f33");
  FAILS(lathe->module_parameter(main, "x", "f32[2] tail", &x), LATHE_INVALID_ARGUMENT,
        "is not a type");
  FAILS(lathe->module_parameter(main, "", "f32[2]", &x), LATHE_INVALID_ARGUMENT, "has no name");
  FAILS(lathe->module_parameter(main, NULL, "f32[2]", &x), LATHE_INVALID_ARGUMENT,
        "'name' is NULL");
  FAILS(lathe->module_parameter(NULL, "x", "f32[2]", &x), LATHE_INVALID_ARGUMENT,
        "'module' is NULL");
  expect_done(lathe->module_parameter(main, "x", "f32[2, 3]", &x), "a parameter");
  FAILS(lathe->module_parameter(main, "x", "f32[2]", &y), LATHE_INVALID_ARGUMENT,
        "two parameters 'x'");
  FAILS(instruct(main, "sofmax", "", x, LATHE_NO_VALUE, &y), LATHE_INVALID_ARGUMENT,
        "did you mean 'softmax'");
  FAILS(instruct(main, "softmax", "{\"axes\": 1}", x, LATHE_NO_VALUE, &y), LATHE_INVALID_ARGUMENT,
        "unknown attribute 'axes'");
  FAILS(instruct(main, "softmax", "{\"axis\": \"1\"}", x, LATHE_NO_VALUE, &y),
        LATHE_INVALID_ARGUMENT, "expected an integer");
  FAILS(instruct(main, "softmax", "{\"axis\": 99999999999999999999}", x, LATHE_NO_VALUE, &y),
        LATHE_INVALID_ARGUMENT, "expected an integer");
  FAILS(instruct(main, "softmax", "{axis", x, LATHE_NO_VALUE, &y), LATHE_INVALID_ARGUMENT,
        "is not valid JSON");
  FAILS(instruct(main, "softmax", "[1]", x, LATHE_NO_VALUE, &y), LATHE_INVALID_ARGUMENT,
        "the attributes are a array");
  FAILS(instruct(main, "softmax", "{\"axis\": 7}", x, LATHE_NO_VALUE, &y), LATHE_INVALID_MODEL,
        "axis 7");
  FAILS(instruct(main, "state_read", "", x, LATHE_NO_VALUE, &y), LATHE_INVALID_ARGUMENT,
        "is not built by its name");
  FAILS(lathe->module_instruction(main, "add", json(""), none, 2, NULL, 0, &y, 1),
        LATHE_INVALID_ARGUMENT, "operand 1 is value 77 of module 'main', which has 1 values");
  FAILS(lathe->module_instruction(main, "add", json(""), none, (size_t)-2, NULL, 0, &y, 1),
        LATHE_INVALID_ARGUMENT, "operands");
  FAILS(lathe->module_instruction(main, "split", json(""), none, 1, NULL, 0, &y, (size_t)1 << 40),
        LATHE_INVALID_ARGUMENT, "results");
  FAILS(lathe->module_instruction(main, "neg", json(""), none, 1, NULL, 0, &y, 2),
        LATHE_INVALID_ARGUMENT, "neg: got room for 2 results, expected 1");
  FAILS(lathe->module_return(main, none, NULL, 2), LATHE_INVALID_ARGUMENT, "result 1 is value 77");
  FAILS(lathe->program_symbol(program, "a b", 0, 2, NULL, 0), LATHE_INVALID_ARGUMENT,
        "'a b' is not a valid name of a symbol");
  FAILS(lathe->program_symbol(program, "n", 5, 2, NULL, 0), LATHE_INVALID_ARGUMENT, "range 5..2");
#undef FAILS
  expect(lathe->module_size(main) == 1, "failed calls add nothing");
  expect_done(instruct(main, "neg", "", x, LATHE_NO_VALUE, &y), "the module is unharmed");
  lathe->program_free(program);
}

static void test_describe(void) {
  static struct text text;
  expect(lathe->op_count() > 150 && lathe->op_name(lathe->op_count()) == NULL, "the list of ops");
  expect(strcmp(lathe->op_name(0), lathe->op_name(1)) < 0, "in alphabetical order");
  expect_done(lathe->op_describe("softmax", keep, &text), "describe an op");
  expect(strstr(text.data, "\"name\":\"softmax\"") != NULL &&
             strstr(text.data, "\"attributes\":[{\"name\":\"axis\",\"kind\":") != NULL,
         "its description");
  expect_error(lathe->op_describe("addd", keep, &text), LATHE_INVALID_ARGUMENT, NULL,
               "did you mean 'add'");
}

static int doubled(void* context, const lathe_value_info* operands, size_t count,
                   const char* attributes, lathe_text_sink result, void* result_context) {
  (void)context;
  if (count != 1 || operands[0].rank != 1 || strstr(attributes, "\"factor\":") == NULL) {
    result(result_context, "expected one vector", 19);
    return 7;
  }
  char type[256];
  const int bytes = snprintf(type, sizeof type, "f32[2*%s]", operands[0].dim_names[0]);
  result(result_context, type, (size_t)bytes);
  return 0;
}

static int repeat(void* context, const lathe_op_call* call) {
  ++*(int*)context;
  const lathe_view* x = &call->operands[0];
  const lathe_view* y = &call->results[0];
  if (((const float*)x->data)[0] < 0) {
    call->message(call->message_context, "negative", 8);
    return 3;
  }
  for (int64_t i = 0; i < y->dims[0]; ++i) {
    ((float*)y->data)[i * y->strides[0]] = ((const float*)x->data)[(i / 2) * x->strides[0]];
  }
  return 0;
}

static void test_custom_op(void) {
  int calls = 0;
  const char* operands[1] = {"x"};
  lathe_op_definition definition = LATHE_INIT(lathe_op_definition);
  definition.name = "test_repeat";
  definition.doc = "Repeats each element.";
  definition.operands = operands;
  definition.operand_count = 1;
  definition.attributes = "{\"factor\": 2, \"note\": {\"kind\": \"text\"}}";
  definition.result_count = 1;
  definition.infer = doubled;
  definition.evaluate = repeat;
  definition.context = &calls;
  expect_done(lathe->op_register(&definition), "register an op");
  expect_error(lathe->op_register(&definition), LATHE_INVALID_ARGUMENT, NULL,
               "op 'test_repeat' exists");
  definition.name = "Bad Name";
  expect_error(lathe->op_register(&definition), LATHE_INVALID_ARGUMENT, NULL, "not a valid name");
  definition.name = "relu";
  expect_error(lathe->op_register(&definition), LATHE_INVALID_ARGUMENT, NULL, "op 'relu' exists");
  definition.name = "test_nothing";
  definition.evaluate = NULL;
  expect_error(lathe->op_register(&definition), LATHE_INVALID_ARGUMENT, NULL, "evaluate");
  definition.evaluate = repeat;
  definition.operand_count = (size_t)-1;
  expect_error(lathe->op_register(&definition), LATHE_INVALID_ARGUMENT, NULL, "operands");
  definition.operand_count = 1;
  definition.attributes = "{\"a\": null}";
  expect_error(lathe->op_register(&definition), LATHE_INVALID_ARGUMENT, NULL, "attribute 'a'");

  lathe_program* program = NULL;
  lathe_module* main = NULL;
  expect_done(lathe->program_create("custom", &program), "a program");
  expect_done(lathe->module_create(program, "main", &main), "main");
  size_t x = 0, m = 0, y = 0;
  expect_done(lathe->module_parameter(main, "x", "f32[n]", &x), "a parameter");
  expect_done(lathe->module_parameter(main, "m", "f32[n, n]", &m), "a matrix");
  expect_error(instruct(main, "test_repeat", "", x, LATHE_NO_VALUE, &y), LATHE_INVALID_ARGUMENT,
               NULL, "attribute 'note' is missing");
  expect_error(instruct(main, "test_repeat", "{\"note\": \"\"}", m, LATHE_NO_VALUE, &y),
               LATHE_INVALID_MODEL, "callback", "its inference callback returned 7");
  expect_done(instruct(main, "test_repeat", "{\"note\": \"\"}", x, LATHE_NO_VALUE, &y), "apply");
  expect_done(instruct(main, "neg", "", y, LATHE_NO_VALUE, &y), "use its result");
  expect_done(lathe->module_return(main, &y, NULL, 1), "return");
  lathe_value_info info = LATHE_INIT(lathe_value_info);
  expect_done(lathe->program_output(program, 0, &info), "the output");
  expect(equal(info.type, "f32[2*n]"), "its inferred type");

  const char* targets[3] = {"cpu", "ref", "sim"};
  for (int i = 0; i < 3; ++i) {
    lathe_compile_options options = LATHE_INIT(lathe_compile_options);
    options.target = targets[i];
    lathe_plan* plan = NULL;
    lathe_session* session = NULL;
    expect_done(lathe->plan_compile(program, &options, &plan), targets[i]);
    if (plan == NULL) continue;
    expect_done(lathe->session_create(plan, NULL, &session), "a session");
    float values[3] = {1, 2, 3};
    float matrix[9] = {0};
    const int64_t three[2] = {3, 3};
    const lathe_view inputs[2] = {view_of(three, 1, values), view_of(three, 2, matrix)};
    lathe_view output = LATHE_INIT(lathe_view);
    const int before = calls;
    expect_done(lathe->session_run_views(session, NULL, inputs, 2, &output, 1), "run");
    expect(calls == before + 1 && output.dims[0] == 6, "the callback ran once");
    expect(((const float*)output.data)[1] == -1 && ((const float*)output.data)[5] == -3,
           "its results");
    lathe->tensor_free(output.value);
    output.value = NULL;
    output.data = NULL;
    values[0] = -1;
    if (i < 2) {
      expect_error(lathe->session_run_views(session, NULL, inputs, 2, &output, 1),
                   LATHE_INVALID_ARGUMENT, "callback", "its evaluation callback returned 3");
      expect(output.value == NULL, "a failed run has no result");
    }
    lathe->session_free(session);
    lathe->plan_free(plan);
  }
  lathe->program_free(program);
}

struct file {
  char* data;
  size_t bytes;
};
static void append(void* context, const char* data, size_t bytes) {
  struct file* file = context;
  file->data = realloc(file->data, file->bytes + bytes);
  memcpy(file->data + file->bytes, data, bytes);
  file->bytes += bytes;
}

static float first_result(const lathe_program* program) {
  lathe_session* session = compile(program);
  float values[2] = {1, 2};
  const int64_t dims[2] = {1, 2};
  const lathe_view input = view_of(dims, 2, values);
  float results[2] = {0, 0};
  lathe_view output = view_of(dims, 2, results);
  expect_done(lathe->session_run_views(session, NULL, &input, 1, &output, 1), "run");
  lathe->session_free(session);
  return results[0];
}

static void test_compiled_files(void) {
  lathe_program* program = load_text(
      "program \"p\" stage imported {\n  symbol n bound 1..*\n"
      "  module @main(%x: f32[n, 2]) {\n"
      "    %w = literal f32[2, 2] {1, 2, 3, 4}\n    %y = matmul(%x, %w)\n"
      "    return %y as \"y\"\n  }\n}\n");
  lathe_plan* plan = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  struct file file = {NULL, 0};
  expect_done(lathe->program_save_memory(plan, append, &file), "save to memory");
  expect_done(lathe->program_save(plan, "c_build.lathe"), "save to a file");
  expect_error(lathe->program_save(plan, "no/such/folder/c.lathe"), LATHE_IO, NULL, "no/such");
  expect_error(lathe->program_save(plan, NULL), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'path' is NULL");
  expect_error(lathe->program_save_memory(plan, NULL, NULL), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'sink' is NULL");
  lathe->plan_free(plan);
  lathe->program_free(program);

  expect_done(lathe->program_load("c_build.lathe", NULL, &program), "load the file");
  expect(first_result(program) == 7, "its result");
  lathe->program_free(program);
  remove("c_build.lathe");
  expect_done(lathe->program_load_memory(file.data, file.bytes, NULL, &program), "load the bytes");
  expect(first_result(program) == 7, "its result");
  lathe_value_info info = LATHE_INIT(lathe_value_info);
  expect_done(lathe->program_output(program, 0, &info), "its output");
  expect(equal(info.name, "y") && equal(info.type, "f32[n, 2]"), "its type");
  lathe->program_free(program);
  program = NULL;
  expect_error(lathe->program_load_memory(file.data, file.bytes - 1, NULL, &program),
               LATHE_INVALID_MODEL, "bad_graph", "damaged or cut off");
  free(file.data);
}

int main(void) {
  lathe = lathe_get_api(LATHE_API_VERSION);
  if (lathe == NULL) return 1;
  test_build();
  test_bodies();
  test_bad_instructions();
  test_describe();
  test_custom_op();
  test_compiled_files();
  return finish();
}
