/* SPDX-License-Identifier: MIT */
/* ONNX graphs that the embedding program describes itself, without a file: program_load_graph and
 * program_supports of lathe.h read them through callbacks. */
#pragma once

#include "lathe/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of a value. */
typedef struct lathe_onnx_type {
  size_t size;
  lathe_value_kind kind;      /* LATHE_VALUE_NONE: unknown */
  lathe_element_type element; /* of a tensor, 0: unknown; the key of a map */
  int32_t rank;               /* of a tensor; -1: unknown */
  const int64_t* dims;        /* rank sizes; -1: unknown */
  const char* const* symbols; /* names of the sizes; the array and its entries may be NULL */
  const struct lathe_onnx_type* item; /* of a sequence or an optional; the value of a map */
} lathe_onnx_type;

typedef struct lathe_onnx_value {
  size_t size;
  const char* name;
  const lathe_onnx_type* type; /* NULL: unknown */
} lathe_onnx_value;

/* An initialiser, or the value of an attribute. */
typedef struct lathe_onnx_tensor {
  size_t size;
  const char* name; /* may be NULL in an attribute */
  lathe_element_type type;
  int32_t rank;
  const int64_t* dims;
  const void* data; /* `bytes` bytes, row-major; types below 8 bits are packed densely */
  size_t bytes;
  const lathe_text* strings; /* the elements of a string tensor, in place of data */
  const char* location;      /* in place of data: a file, as options->folder and ->data have it */
  uint64_t offset;           /* of the elements in that file */
} lathe_onnx_tensor;

/* Kinds of attributes; the values are those of onnx.AttributeProto.AttributeType. */
typedef int32_t lathe_onnx_attribute_kind;
enum {
  LATHE_ONNX_OTHER = 0, /* has no form here: an operator that reads it refuses it by name */
  LATHE_ONNX_FLOAT = 1,
  LATHE_ONNX_INT = 2,
  LATHE_ONNX_STRING = 3,
  LATHE_ONNX_TENSOR = 4,
  LATHE_ONNX_GRAPH = 5,
  LATHE_ONNX_FLOATS = 6,
  LATHE_ONNX_INTS = 7,
  LATHE_ONNX_STRINGS = 8,
  LATHE_ONNX_TENSORS = 9,
  LATHE_ONNX_GRAPHS = 10,
  LATHE_ONNX_TYPE = 13
};

typedef struct lathe_onnx_attribute {
  size_t size;
  const char* name;
  const char* reference; /* in a function: the name of its attribute with the value; else NULL */
  lathe_onnx_attribute_kind kind;
  size_t count; /* of the array that the kind names; 1 for FLOAT, INT, STRING, TENSOR and GRAPH */
  const float* floats;
  const int64_t* ints;
  const lathe_text* strings;
  const lathe_onnx_tensor* const* tensors;
  const void* const* graphs; /* for the callbacks */
  const lathe_onnx_type* type;
} lathe_onnx_attribute;

typedef struct lathe_onnx_node {
  size_t size;
  const char* name; /* may be NULL, as domain and overload */
  const char* op_type;
  const char* domain;
  const char* overload;
  const char* const* inputs; /* names of values; NULL or "": absent */
  size_t input_count;
  const char* const* outputs;
  size_t output_count;
  size_t attribute_count;
} lathe_onnx_node;

/* What a graph holds; the body of a function has nodes alone. */
typedef struct lathe_onnx_graph {
  size_t size;
  const char* name; /* may be NULL */
  size_t input_count;
  size_t output_count;
  size_t value_count; /* inner values whose types are known */
  size_t initialiser_count;
  size_t node_count;
} lathe_onnx_graph;

typedef struct lathe_onnx_opset {
  const char* domain; /* "" or NULL: ai.onnx */
  int64_t version;
} lathe_onnx_opset;

/* A model-local function. */
typedef struct lathe_onnx_function {
  size_t size;
  const char* domain;
  const char* name;
  const char* overload; /* may be NULL */
  const char* const* inputs;
  size_t input_count;
  const char* const* outputs;
  size_t output_count;
  const char* const* attributes; /* names of those that a call must have */
  size_t attribute_count;
  size_t default_count; /* attributes that a call may have */
  const lathe_onnx_opset* opsets;
  size_t opset_count;
  const void* body;
} lathe_onnx_function;

/* A model. The callbacks fill in a struct, whose size is set and other fields are zero, and return
 * 0; another result ends the function that reads the source with LATHE_INVALID_ARGUMENT. `graph` is
 * a handle of the caller: that of the main graph, of an attribute, of a function's body. What a
 * callback points to must stay until the next call of a callback; the bytes of tensors are copied,
 * unless the options have `release`: then they must stay until it is called. */
typedef struct lathe_onnx_source {
  size_t size;
  int64_t ir_version; /* of the file format; 0: the newest */
  const lathe_onnx_opset* opsets;
  size_t opset_count;
  size_t function_count;
  const char* producer; /* may be NULL, as producer_version */
  const char* producer_version;
  const char* const* metadata; /* keys and values, one after the other */
  size_t metadata_count;       /* pairs */
  const void* graph;           /* the main graph */
  void* context;               /* of the callbacks */
  int (*graph_info)(void* context, const void* graph, lathe_onnx_graph* info);
  int (*input)(void* context, const void* graph, size_t index, lathe_onnx_value* value);
  int (*output)(void* context, const void* graph, size_t index, lathe_onnx_value* value);
  int (*value)(void* context, const void* graph, size_t index, lathe_onnx_value* value);
  int (*initialiser)(void* context, const void* graph, size_t index, lathe_onnx_tensor* tensor);
  int (*node)(void* context, const void* graph, size_t index, lathe_onnx_node* node);
  int (*attribute)(void* context, const void* graph, size_t node, size_t index,
                   lathe_onnx_attribute* attribute);
  /* Required where function_count is not 0. */
  int (*function)(void* context, size_t index, lathe_onnx_function* function);
  int (*function_default)(void* context, size_t function, size_t index,
                          lathe_onnx_attribute* attribute);
} lathe_onnx_source;

/* Receives for a node of the main graph, by its index, why it is not supported; NULL: it is. */
typedef void (*lathe_support_sink)(void* context, size_t node, const char* reason);

#ifdef __cplusplus
}
#endif
