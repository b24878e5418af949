# SPDX-License-Identifier: MIT
"""Lathe compiles and runs ONNX models.

- `lathe` itself has the names of MIGraphX: parse_onnx, program, shape, argument, …
- `lathe.onnxruntime` has the names of ONNX Runtime (also `lathe.InferenceSession`).
- `lathe.genai` has the names of ONNX Runtime GenAI.
"""

from __future__ import annotations

import importlib
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
    from lathe._migraphx.argument import (
        argument,
        argument_from_pointer,
        create_argument,
        fill_argument,
        generate_argument,
    )
    from lathe._migraphx.compiled import load, load_buffer, save, save_buffer
    from lathe._migraphx.custom_op import custom_op
    from lathe._migraphx.modules import instruction_ref, macro, module, op
    from lathe._migraphx.program import (
        compile_modes,
        get_onnx_operators,
        get_target,
        get_targets,
        parse_onnx,
        parse_onnx_buffer,
        program,
        quantize_bf16,
        quantize_fp16,
        quantize_int8,
        target,
    )
    from lathe._migraphx.refused import (
        allocate_gpu,
        autocast_fp8,
        from_gpu,
        gpu_sync,
        parse_tf,
        quantize_fp8,
        to_gpu,
    )
    from lathe._migraphx.shape import dynamic_dimension, shape
    from lathe.onnxruntime._session import InferenceSession

__version__: str = _core.version

# Imported at first use, so that the import of the package takes no time.
_LAZY = {
    "lathe._migraphx.argument": (
        "argument argument_from_pointer create_argument fill_argument generate_argument"),
    "lathe._migraphx.compiled": "load load_buffer save save_buffer",
    "lathe._migraphx.custom_op": "custom_op",
    "lathe._migraphx.modules": "instruction_ref macro module op",
    "lathe._migraphx.program": (
        "compile_modes get_onnx_operators get_target get_targets parse_onnx parse_onnx_buffer program "
        "quantize_bf16 quantize_fp16 quantize_int8 target"),
    "lathe._migraphx.refused": (
        "allocate_gpu autocast_fp8 from_gpu gpu_sync parse_tf quantize_fp8 to_gpu"),
    "lathe._migraphx.shape": "dynamic_dimension shape",
    "lathe.onnxruntime._session": "InferenceSession",
}
_HOME = {name: home for home, names in _LAZY.items() for name in names.split()}
__all__ = [
    "DeviceError", "Error", "Internal", "Interrupted", "InvalidArgument", "InvalidModelError",
    "IoError", "MissingFile", "OutOfMemory", "Unsupported", "features", *sorted(_HOME),
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'lathe' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
