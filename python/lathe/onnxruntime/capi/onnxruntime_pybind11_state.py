# SPDX-License-Identifier: MIT
"""The names of ONNX Runtime's extension module: exceptions, options, values."""

from lathe.onnxruntime._devices import *  # noqa: F403
from lathe.onnxruntime._devices import (  # noqa: F401
    OrtArenaCfg,
    OrtEpDevice,
    OrtHardwareDevice,
    OrtSyncStream,
    get_ep_devices,
)
from lathe.onnxruntime._enums import *  # noqa: F403
from lathe.onnxruntime._exceptions import *  # noqa: F403
from lathe.onnxruntime._node_arg import ModelMetadata, NodeArg  # noqa: F401
from lathe.onnxruntime._options import RunOptions, SessionOptions  # noqa: F401
from lathe.onnxruntime._providers import (  # noqa: F401
    get_all_providers,
    get_available_providers,
)
from lathe.onnxruntime._refused import *  # noqa: F403
from lathe.onnxruntime._values import (  # noqa: F401
    OrtDevice,
    OrtMemoryInfo,
    OrtValue,
    SparseTensor,
    copy_tensors,
)

OrtValueVector = list


def get_default_session_options() -> SessionOptions:
    return SessionOptions()


def get_session_initializer() -> None:
    return None


def get_hardware_devices() -> list[OrtHardwareDevice]:
    return [OrtHardwareDevice()]
