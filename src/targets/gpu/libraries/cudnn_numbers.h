// SPDX-License-Identifier: MIT
// Numbers of cuDNN's back end, declared here so that nothing of the vendor is needed to build;
// `make check-cuda` compares them with its headers.
#pragma once

namespace lathe::gpu::cudnn {

// LATHE_NUMBER(name, value, cuDNN's name)
#define LATHE_CUDNN_NUMBERS(LATHE_NUMBER)                                                    \
  LATHE_NUMBER(kDataF32, 0, CUDNN_DATA_FLOAT)                                                \
  LATHE_NUMBER(kDataF64, 1, CUDNN_DATA_DOUBLE)                                               \
  LATHE_NUMBER(kDataF16, 2, CUDNN_DATA_HALF)                                                 \
  LATHE_NUMBER(kDataBf16, 9, CUDNN_DATA_BFLOAT16)                                            \
  LATHE_NUMBER(kCrossCorrelation, 1, CUDNN_CROSS_CORRELATION)                                \
  LATHE_NUMBER(kPointwiseAdd, 0, CUDNN_POINTWISE_ADD)                                        \
  LATHE_NUMBER(kPointwiseRelu, 100, CUDNN_POINTWISE_RELU_FWD)                                \
  LATHE_NUMBER(kHeuristicFallback, 2, CUDNN_HEUR_MODE_FALLBACK)                              \
  LATHE_NUMBER(kHeuristicA, 3, CUDNN_HEUR_MODE_A)                                            \
  LATHE_NUMBER(kNoteTensorCore, 0, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)                         \
  LATHE_NUMBER(kNoteDownConvert, 1, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)                \
  LATHE_NUMBER(kNoteReducedPrecision, 2, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)   \
  LATHE_NUMBER(kNoteNondeterministic, 4, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)              \
  LATHE_NUMBER(kIsHandle, 0, CUDNN_TYPE_HANDLE)                                              \
  LATHE_NUMBER(kIsDataType, 1, CUDNN_TYPE_DATA_TYPE)                                         \
  LATHE_NUMBER(kIsBoolean, 2, CUDNN_TYPE_BOOLEAN)                                            \
  LATHE_NUMBER(kIsI64, 3, CUDNN_TYPE_INT64)                                                  \
  LATHE_NUMBER(kIsF32, 4, CUDNN_TYPE_FLOAT)                                                  \
  LATHE_NUMBER(kIsF64, 5, CUDNN_TYPE_DOUBLE)                                                 \
  LATHE_NUMBER(kIsPointer, 6, CUDNN_TYPE_VOID_PTR)                                           \
  LATHE_NUMBER(kIsConvolutionMode, 7, CUDNN_TYPE_CONVOLUTION_MODE)                           \
  LATHE_NUMBER(kIsHeuristic, 8, CUDNN_TYPE_HEUR_MODE)                                        \
  LATHE_NUMBER(kIsNote, 11, CUDNN_TYPE_NUMERICAL_NOTE)                                       \
  LATHE_NUMBER(kIsPointwiseMode, 14, CUDNN_TYPE_POINTWISE_MODE)                              \
  LATHE_NUMBER(kIsDescriptor, 15, CUDNN_TYPE_BACKEND_DESCRIPTOR)                             \
  LATHE_NUMBER(kIsCharacter, 24, CUDNN_TYPE_CHAR)                                            \
  LATHE_NUMBER(kPointwise, 0, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)                            \
  LATHE_NUMBER(kConvolution, 1, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)                        \
  LATHE_NUMBER(kEngine, 2, CUDNN_BACKEND_ENGINE_DESCRIPTOR)                                  \
  LATHE_NUMBER(kEngineConfig, 3, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)                         \
  LATHE_NUMBER(kHeuristics, 4, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)                          \
  LATHE_NUMBER(kPlan, 5, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)                            \
  LATHE_NUMBER(kForward, 10, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)         \
  LATHE_NUMBER(kPointwiseOperation, 13, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)        \
  LATHE_NUMBER(kGraph, 15, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)                          \
  LATHE_NUMBER(kVariantPack, 16, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)                      \
  LATHE_NUMBER(kTensor, 17, CUDNN_BACKEND_TENSOR_DESCRIPTOR)                                 \
  LATHE_NUMBER(kPointwiseModeOf, 0, CUDNN_ATTR_POINTWISE_MODE)                               \
  LATHE_NUMBER(kPointwisePrecision, 1, CUDNN_ATTR_POINTWISE_MATH_PREC)                       \
  LATHE_NUMBER(kConvolutionType, 100, CUDNN_ATTR_CONVOLUTION_COMP_TYPE)                      \
  LATHE_NUMBER(kConvolutionMode, 101, CUDNN_ATTR_CONVOLUTION_CONV_MODE)                      \
  LATHE_NUMBER(kConvolutionDilations, 102, CUDNN_ATTR_CONVOLUTION_DILATIONS)                 \
  LATHE_NUMBER(kConvolutionStrides, 103, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)              \
  LATHE_NUMBER(kConvolutionPadEnd, 104, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)                \
  LATHE_NUMBER(kConvolutionPadBegin, 105, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)               \
  LATHE_NUMBER(kConvolutionAxes, 106, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)                   \
  LATHE_NUMBER(kHeuristicsMode, 200, CUDNN_ATTR_ENGINEHEUR_MODE)                             \
  LATHE_NUMBER(kHeuristicsGraph, 201, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)                 \
  LATHE_NUMBER(kHeuristicsResults, 202, CUDNN_ATTR_ENGINEHEUR_RESULTS)                       \
  LATHE_NUMBER(kConfigEngine, 300, CUDNN_ATTR_ENGINECFG_ENGINE)                              \
  LATHE_NUMBER(kPlanHandle, 400, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)                           \
  LATHE_NUMBER(kPlanConfig, 401, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)                    \
  LATHE_NUMBER(kPlanWorkspace, 402, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)                \
  LATHE_NUMBER(kPlanText, 405, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)                \
  LATHE_NUMBER(kForwardAlpha, 700, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA)           \
  LATHE_NUMBER(kForwardBeta, 701, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)             \
  LATHE_NUMBER(kForwardConvolution, 702, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC) \
  LATHE_NUMBER(kForwardW, 703, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)                   \
  LATHE_NUMBER(kForwardX, 704, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)                   \
  LATHE_NUMBER(kForwardY, 705, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y)                   \
  LATHE_NUMBER(kOperationPointwise, 750, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)       \
  LATHE_NUMBER(kOperationX, 751, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)                       \
  LATHE_NUMBER(kOperationB, 752, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)                       \
  LATHE_NUMBER(kOperationY, 753, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)                       \
  LATHE_NUMBER(kGraphHandle, 800, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)                          \
  LATHE_NUMBER(kGraphOperations, 801, CUDNN_ATTR_OPERATIONGRAPH_OPS)                         \
  LATHE_NUMBER(kTensorAlignment, 900, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)                      \
  LATHE_NUMBER(kTensorType, 901, CUDNN_ATTR_TENSOR_DATA_TYPE)                                \
  LATHE_NUMBER(kTensorDims, 902, CUDNN_ATTR_TENSOR_DIMENSIONS)                               \
  LATHE_NUMBER(kTensorStrides, 903, CUDNN_ATTR_TENSOR_STRIDES)                               \
  LATHE_NUMBER(kTensorId, 906, CUDNN_ATTR_TENSOR_UNIQUE_ID)                                  \
  LATHE_NUMBER(kTensorVirtual, 907, CUDNN_ATTR_TENSOR_IS_VIRTUAL)                            \
  LATHE_NUMBER(kPackIds, 1000, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)                           \
  LATHE_NUMBER(kPackPointers, 1001, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)                   \
  LATHE_NUMBER(kPackWorkspace, 1003, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)                      \
  LATHE_NUMBER(kEngineNotes, 1303, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)

#define LATHE_NUMBER(name, value, vendor_name) inline constexpr int name = value;
LATHE_CUDNN_NUMBERS(LATHE_NUMBER)
#undef LATHE_NUMBER

}  // namespace lathe::gpu::cudnn
