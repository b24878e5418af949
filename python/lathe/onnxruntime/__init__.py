# SPDX-License-Identifier: MIT
"""The names of ONNX Runtime over Lathe: `import lathe.onnxruntime as onnxruntime`.

    session = onnxruntime.InferenceSession("model.onnx")
    outputs = session.run(None, {"input": array})
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lathe import _core
from lathe._features import present_targets, refuse
from lathe.onnxruntime import capi as capi
from lathe.onnxruntime._binding import IOBinding, SessionIOBinding
from lathe._libraries import (
    register_execution_provider_library,
    unregister_execution_provider_library,
)
from lathe.onnxruntime._compiler import ModelCompiler
from lathe.onnxruntime._devices import (
    OrtArenaCfg,
    OrtEpAssignedNode,
    OrtEpAssignedSubgraph,
    OrtEpDevice,
    OrtExternalInitializerInfo,
    OrtHardwareDevice,
    OrtSyncStream,
    get_ep_devices,
)
from lathe.onnxruntime._enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    ModelPackageWriteMode,
    OrtAllocatorType,
    OrtCompileApiFlags,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from lathe.onnxruntime._node_arg import ModelMetadata, NodeArg
from lathe.onnxruntime._options import RunOptions, SessionOptions
from lathe.onnxruntime._providers import get_all_providers, get_available_providers
from lathe.onnxruntime._refused import (
    AdapterFormat,
    LoraAdapter,
    ModelPackage,
    ModelPackageComponentContext,
    ModelPackageContext,
    ModelPackageOptions,
    OrtEpContextData,
    OrtEpContextDataBuffer,
)
from lathe.onnxruntime._session import InferenceSession
from lathe.onnxruntime._values import (
    OrtDevice,
    OrtMemoryInfo,
    OrtValue,
    SparseTensor,
    copy_tensors,
)
from lathe.onnxruntime.capi import (
    _pybind_state,
    onnxruntime_inference_collection,
    onnxruntime_pybind11_state,
    onnxruntime_validation,
)

__version__ = "1.32.0"
version = __version__
package_name = "lathe"
cuda_version = ""
import_capi_exception = None
has_collective_ops = False


# Programs reach them as attributes of capi.
_MODULES = (_pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state)


def get_version_string() -> str:
    """The version of ONNX Runtime whose names these are."""
    return __version__


def get_build_info() -> str:
    return f"Lathe {_core.version}"


def get_device() -> str:
    """"GPU" or "CPU"."""
    return "GPU" if _core.has_device("gpu") else "CPU"


def set_default_logger_severity(severity: int) -> None:
    """The level of the logger "lathe": 0 verbose to 4 fatal."""
    levels = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL]
    logging.getLogger("lathe").setLevel(levels[min(max(int(severity), 0), 4)])


def set_default_logger_verbosity(level: int) -> None:
    """No effect: the logger has severities alone."""


def set_default_logger_callback(callback: Callable[..., Any] | None) -> None:
    """Calls callback(severity, category, logid, location, message) for each line of the log."""
    logger = logging.getLogger("lathe")
    for handler in [h for h in logger.handlers if isinstance(h, _CallbackHandler)]:
        logger.removeHandler(handler)
    if callback is not None:
        logger.addHandler(_CallbackHandler(callback))


class _CallbackHandler(logging.Handler):
    def __init__(self, callback: Callable[..., Any]) -> None:
        super().__init__()
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        severity = min(max(record.levelno // 10 - 1, 0), 4)
        self._callback(severity, "lathe", record.name, "", record.getMessage())


def set_seed(seed: int) -> None:
    """No effect: random operators have counters in their sessions."""


def set_global_thread_pool_sizes(intra_op: int, inter_op: int, *args: Any) -> None:
    """No effect: the threads of the process are one per core; sessions may have their own."""


def create_and_register_allocator(memory_info: Any, arena_cfg: Any = None) -> None:
    """No effect: memory is not pooled per provider."""


def create_and_register_allocator_v2(provider: str, memory_info: Any, options: Any,
                                     arena_cfg: Any = None) -> None:
    """No effect: memory is not pooled per provider."""


def enable_telemetry_events() -> None:
    """No effect: Lathe has no telemetry."""


def disable_telemetry_events() -> None:
    """No effect: Lathe has no telemetry."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True,
                 directory: str | None = None) -> None:
    """No effect: Lathe opens the libraries of a device itself."""


def print_debug_info() -> None:
    """Prints the version and the targets."""
    print(f"Lathe {_core.version}, targets: {', '.join(present_targets())}")
