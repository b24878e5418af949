# SPDX-License-Identifier: MIT
"""Names of MIGraphX that refuse their use."""

from __future__ import annotations

from lathe._features import refused_function

parse_tf = refused_function("parse_tf", "TensorFlow files")
quantize_fp8 = refused_function("quantize_fp8", "quantize fp8")
autocast_fp8 = refused_function("autocast_fp8", "quantize fp8")
allocate_gpu = refused_function("allocate_gpu", "copies to a GPU")
to_gpu = refused_function("to_gpu", "copies to a GPU")
from_gpu = refused_function("from_gpu", "copies to a GPU")
gpu_sync = refused_function("gpu_sync", "copies to a GPU")
