# SPDX-License-Identifier: MIT
"""Names of MIGraphX that refuse their use."""

from __future__ import annotations

from lathe._features import refused_function

load = refused_function("load", "compiled files")
save = refused_function("save", "compiled files")
load_buffer = refused_function("load_buffer", "compiled files")
save_buffer = refused_function("save_buffer", "compiled files")
parse_tf = refused_function("parse_tf", "TensorFlow files")
quantize_fp8 = refused_function("quantize_fp8", "quantize fp8")
autocast_fp8 = refused_function("autocast_fp8", "quantize fp8")
allocate_gpu = refused_function("allocate_gpu", "device memory")
to_gpu = refused_function("to_gpu", "device memory")
from_gpu = refused_function("from_gpu", "device memory")
gpu_sync = refused_function("gpu_sync", "device memory")
