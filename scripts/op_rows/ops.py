# SPDX-License-Identifier: MIT
"""Element types, and the description of an op that its test rows need."""

import dataclasses
from typing import Callable

import ml_dtypes
import numpy as np
from onnx import TensorProto

TYPES = {
    "f32": (np.float32, TensorProto.FLOAT), "f64": (np.float64, TensorProto.DOUBLE),
    "f16": (np.float16, TensorProto.FLOAT16), "bf16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
    "f8e4m3fn": (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN),
    "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, TensorProto.FLOAT8E4M3FNUZ),
    "f8e5m2": (ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2),
    "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, TensorProto.FLOAT8E5M2FNUZ),
    "f8e8m0": (ml_dtypes.float8_e8m0fnu, TensorProto.FLOAT8E8M0),
    "f4e2m1": (ml_dtypes.float4_e2m1fn, TensorProto.FLOAT4E2M1),
    "i2": (ml_dtypes.int2, TensorProto.INT2), "i4": (ml_dtypes.int4, TensorProto.INT4),
    "i8": (np.int8, TensorProto.INT8), "i16": (np.int16, TensorProto.INT16),
    "i32": (np.int32, TensorProto.INT32), "i64": (np.int64, TensorProto.INT64),
    "u2": (ml_dtypes.uint2, TensorProto.UINT2), "u4": (ml_dtypes.uint4, TensorProto.UINT4),
    "u8": (np.uint8, TensorProto.UINT8), "u16": (np.uint16, TensorProto.UINT16),
    "u32": (np.uint32, TensorProto.UINT32), "u64": (np.uint64, TensorProto.UINT64),
    "bool": (np.bool_, TensorProto.BOOL), "string": (object, TensorProto.STRING),
    "c64": (np.complex64, TensorProto.COMPLEX64), "c128": (np.complex128, TensorProto.COMPLEX128),
}


@dataclasses.dataclass
class Op:
    operator: str
    function: Callable
    rows: str
    result: int | str = 0  # the operand whose type it has, a type, or "to": that attribute's
    widens: bool = True  # numpy computes in f64; else every bit counts
