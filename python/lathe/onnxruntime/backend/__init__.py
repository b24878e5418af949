# SPDX-License-Identifier: MIT
"""The ONNX backend interface."""

from lathe.onnxruntime.backend.backend import (
    LatheBackend,
    is_compatible,
    prepare,
    run,
    supports_device,
)
from lathe.onnxruntime.backend.backend_rep import LatheBackendRep

OnnxRuntimeBackend = LatheBackend
__all__ = [
    "LatheBackend", "LatheBackendRep", "OnnxRuntimeBackend", "is_compatible", "prepare", "run",
    "supports_device",
]
