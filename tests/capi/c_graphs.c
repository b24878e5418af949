/* SPDX-License-Identifier: MIT */
/* ONNX graphs described by callbacks, and which of their nodes are supported. */
#include "check.h"

/* y = relu(x * w) and z = a branch, over a named batch. */
struct model {
  const char* op;       /* of the second node */
  const char* location; /* of the weights; NULL: in memory */
  int failing;          /* the node whose callback fails; -1: none */
  size_t weight_bytes;
  int released;
};

static const float kWeights[4] = {1, 2, 3, -4};
static const int64_t kMatrix[2] = {2, 2};
static const int64_t kRows[2] = {-1, 2};
static const char* const kRowNames[2] = {"batch", NULL};
static const int kMain = 0, kThen = 1, kElse = 2;

static int graph_info(void* context, const void* graph, lathe_onnx_graph* info) {
  (void)context;
  if (graph != &kMain) {
    info->name = graph == &kThen ? "then" : "else";
    info->output_count = info->node_count = 1;
    return 0;
  }
  info->name = "net";
  info->input_count = 2;
  info->output_count = 2;
  info->value_count = 1;
  info->initialiser_count = 1;
  info->node_count = 3;
  return 0;
}

static lathe_onnx_type type_of(lathe_element_type element, int32_t rank) {
  lathe_onnx_type type = LATHE_INIT(lathe_onnx_type);
  type.kind = LATHE_VALUE_TENSOR;
  type.element = element;
  type.rank = rank;
  type.dims = kRows;
  type.symbols = kRowNames;
  return type;
}

static int input(void* context, const void* graph, size_t index, lathe_onnx_value* value) {
  (void)context, (void)graph;
  static lathe_onnx_type rows, scalar;
  rows = type_of(LATHE_F32, 2);
  scalar = type_of(LATHE_BOOL, 0);
  value->name = index == 0 ? "x" : "c";
  value->type = index == 0 ? &rows : &scalar;
  return 0;
}

static int output(void* context, const void* graph, size_t index, lathe_onnx_value* value) {
  (void)context;
  static lathe_onnx_type rows;
  rows = type_of(LATHE_F32, 2);
  value->name = graph == &kThen ? "t" : graph == &kElse ? "e" : index == 0 ? "y" : "z";
  value->type = graph == &kMain ? &rows : NULL;
  return 0;
}

static int value(void* context, const void* graph, size_t index, lathe_onnx_value* value) {
  (void)context, (void)graph, (void)index;
  static lathe_onnx_type rows;
  rows = type_of(LATHE_F32, 2);
  value->name = "m";
  value->type = &rows;
  return 0;
}

static int initialiser(void* context, const void* graph, size_t index, lathe_onnx_tensor* tensor) {
  (void)graph, (void)index;
  const struct model* model = context;
  tensor->name = "w";
  tensor->type = LATHE_F32;
  tensor->rank = 2;
  tensor->dims = kMatrix;
  tensor->data = kWeights;
  tensor->bytes = model->weight_bytes;
  tensor->location = model->location;
  return 0;
}

static int node(void* context, const void* graph, size_t index, lathe_onnx_node* node) {
  static const char* const kProduct[2] = {"x", "w"};
  static const char* const kInner[1] = {"m"};
  static const char* const kCondition[1] = {"c"};
  static const char* const kResults[3] = {"m", "y", "z"};
  static const char* const kBranches[2] = {"t", "e"};
  const struct model* model = context;
  if (graph != &kMain) {
    node->op_type = graph == &kThen ? "Neg" : "Identity";
    node->inputs = kInner;
    node->input_count = 1;
    node->outputs = &kBranches[graph == &kElse];
    node->output_count = 1;
    return 0;
  }
  if (model->failing == (int)index) return 7;
  node->name = index == 1 ? "second" : NULL;
  node->op_type = index == 0 ? "MatMul" : index == 1 ? model->op : "If";
  node->inputs = index == 0 ? kProduct : index == 1 ? kInner : kCondition;
  node->input_count = index == 0 ? 2 : 1;
  node->outputs = &kResults[index];
  node->output_count = 1;
  node->attribute_count = index == 2 ? 2 : 0;
  return 0;
}

static int attribute(void* context, const void* graph, size_t node, size_t index,
                     lathe_onnx_attribute* attribute) {
  static const void* const kBodies[2] = {&kThen, &kElse};
  (void)context, (void)graph, (void)node;
  attribute->name = index == 0 ? "then_branch" : "else_branch";
  attribute->kind = LATHE_ONNX_GRAPH;
  attribute->graphs = &kBodies[index];
  attribute->count = 1;
  return 0;
}

static const lathe_onnx_opset kOpset = {NULL, 18};

static struct model plain(void) {
  struct model model = {"Relu", NULL, -1, sizeof kWeights, 0};
  return model;
}

static lathe_onnx_source source_of(struct model* model) {
  lathe_onnx_source source = LATHE_INIT(lathe_onnx_source);
  source.ir_version = 9;
  source.opsets = &kOpset;
  source.opset_count = 1;
  source.graph = &kMain;
  source.context = model;
  source.graph_info = graph_info;
  source.input = input;
  source.output = output;
  source.value = value;
  source.initialiser = initialiser;
  source.node = node;
  source.attribute = attribute;
  return source;
}

static void release(void* context) { ++((struct model*)context)->released; }

static void run(const lathe_program* program, int condition, const float* want, const char* what) {
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  lathe_tensor* inputs[2] = {NULL, NULL};
  lathe_tensor* outputs[2] = {NULL, NULL};
  float x[2] = {1, 1};
  unsigned char c = (unsigned char)condition;
  const int64_t dims[2] = {1, 2};
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  expect_done(lathe->tensor_wrap(LATHE_F32, dims, NULL, 2, x, NULL, NULL, &inputs[0]), "x");
  expect_done(lathe->tensor_wrap(LATHE_BOOL, NULL, NULL, 0, &c, NULL, NULL, &inputs[1]), "c");
  expect_done(lathe->session_run(session, NULL, inputs, 2, outputs, 2), "run");
  const float* y = lathe->tensor_data(outputs[0]);
  const float* z = lathe->tensor_data(outputs[1]);
  expect(y[0] == 4 && y[1] == 0 && z[0] == want[0] && z[1] == want[1], what);
  for (int i = 0; i < 2; ++i) {
    lathe->tensor_free(inputs[i]);
    lathe->tensor_free(outputs[i]);
  }
  lathe->session_free(session);
  lathe->plan_free(plan);
}

static void test_load(void) {
  struct model model = plain();
  const lathe_onnx_source source = source_of(&model);
  lathe_load_options options = LATHE_INIT(lathe_load_options);
  options.name = "described";
  options.release = release;
  options.release_context = &model;
  lathe_program* program = NULL;
  expect_done(lathe->program_load_graph(&source, &options, &program), "a described graph");
  lathe_value_info info = LATHE_INIT(lathe_value_info);
  expect_done(lathe->program_input(program, 0, &info), "its input");
  expect(equal(info.name, "x") && info.rank == 2 && equal(info.dim_names[0], "batch"), "its type");
  const float negated[2] = {-4, 2};
  const float same[2] = {4, -2};
  run(program, 1, negated, "the first branch");
  run(program, 0, same, "the second branch");
  expect(model.released == 0, "weights in use are not released");
  lathe->program_free(program);
  expect(model.released == 1, "weights are released once");
}

static void test_errors(void) {
  lathe_program* program = NULL;
  struct model model = plain();
  lathe_onnx_source source = source_of(&model);
  expect_error(lathe->program_load_graph(NULL, NULL, &program), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'source' is NULL");
  expect_error(lathe->program_load_graph(&source, NULL, NULL), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'program' is NULL");
  model.failing = 1;
  expect_error(lathe->program_load_graph(&source, NULL, &program), LATHE_INVALID_ARGUMENT, NULL,
               "callback 'node' of the source failed with 7");
  model = plain();
  model.weight_bytes = 12;
  expect_error(lathe->program_load_graph(&source, NULL, &program), LATHE_INVALID_MODEL, NULL,
               "tensor 'w' has 12 bytes, but its type and shape need 16");
  model = plain();
  model.location = "../weights.bin";
  expect_error(lathe->program_load_graph(&source, NULL, &program), LATHE_INVALID_MODEL, NULL,
               "leaves the model's folder");
  model.location = "weights.bin";
  expect_error(lathe->program_load_graph(&source, NULL, &program), LATHE_INVALID_ARGUMENT, NULL,
               "'weights.bin', which is not among the files in memory");
  const lathe_data_file file = {"weights.bin", kWeights, sizeof kWeights};
  lathe_load_options options = LATHE_INIT(lathe_load_options);
  options.data = &file;
  options.data_count = 1;
  expect_done(lathe->program_load_graph(&source, &options, &program), "weights of a file");
  lathe->program_free(program);
  model = plain();
  source.node = NULL;
  expect_error(lathe->program_load_graph(&source, NULL, &program), LATHE_INVALID_ARGUMENT, NULL,
               "callback 'node' of the source is NULL");
}

struct answers {
  size_t count;
  char refused[4];
  char reason[256];
};

static void answer(void* context, size_t node, const char* reason) {
  struct answers* answers = context;
  if (node < 4) answers->refused[node] = reason != NULL;
  if (reason != NULL) snprintf(answers->reason, sizeof answers->reason, "%s", reason);
  ++answers->count;
}

static void test_supports(void) {
  struct model model = plain();
  const lathe_onnx_source source = source_of(&model);
  struct answers answers = {0};
  expect_done(lathe->program_supports(&source, NULL, answer, &answers), "ask");
  expect(answers.count == 3 && answers.reason[0] == 0, "all nodes are supported");
  model.op = "Recognise";
  memset(&answers, 0, sizeof answers);
  expect_done(lathe->program_supports(&source, NULL, answer, &answers), "ask about an unknown op");
  expect(answers.count == 3 && !answers.refused[0] && answers.refused[1] && !answers.refused[2],
         "one node is refused");
  expect(strstr(answers.reason, "Recognise") != NULL, "by name");
  expect_error(lathe->program_supports(&source, NULL, NULL, NULL), LATHE_INVALID_ARGUMENT, NULL,
               "argument 'sink' is NULL");
}

int main(void) {
  lathe = lathe_get_api(LATHE_API_VERSION);
  if (lathe == NULL) return 1;
  test_load();
  test_errors();
  test_supports();
  return finish();
}
