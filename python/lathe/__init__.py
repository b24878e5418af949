# SPDX-License-Identifier: MIT
"""Lathe compiles and runs ONNX models.

- `lathe.onnxruntime` has the names of ONNX Runtime (also `lathe.InferenceSession`).
- `lathe.genai` has the names of ONNX Runtime GenAI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lathe import _core
from lathe._errors import (
    DeviceError,
    Error,
    Internal,
    Interrupted,
    InvalidArgument,
    InvalidModelError,
    IoError,
    MissingFile,
    OutOfMemory,
    Unsupported,
)
from lathe._features import features

if TYPE_CHECKING:
    from lathe.onnxruntime import InferenceSession

__version__: str = _core.version
__all__ = [
    "DeviceError", "Error", "InferenceSession", "Internal", "Interrupted", "InvalidArgument",
    "InvalidModelError", "IoError", "MissingFile", "OutOfMemory", "Unsupported", "features",
]


def __getattr__(name: str) -> Any:
    if name == "InferenceSession":
        from lathe.onnxruntime import InferenceSession

        return InferenceSession
    raise AttributeError(f"module 'lathe' has no attribute {name!r}")
