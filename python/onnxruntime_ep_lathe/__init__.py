# SPDX-License-Identifier: MIT
"""Lathe as an execution provider (EP) of ONNX Runtime and ONNX Runtime GenAI.

    import onnxruntime, onnxruntime_ep_lathe
    onnxruntime_ep_lathe.register()
    session = onnxruntime.InferenceSession("model.onnx", providers=["LatheExecutionProvider"])

Releases of ONNX Runtime before 1.25 take EPs by device: SessionOptions.add_provider_for_devices.
"""

import os
import pathlib
import sys

__all__ = ["get_ep_name", "get_ep_names", "get_library_path", "register"]

_NAMES = ["LatheExecutionProvider", "lathe"]
_LIBRARY = "liblathe_ort.so"
_registered: set[tuple[str, str]] = set()


def get_library_path() -> str:
    """The path of liblathe_ort.so: LATHE_ORT_LIBRARY, or the file in this package."""
    path = pathlib.Path(os.environ.get("LATHE_ORT_LIBRARY") or pathlib.Path(__file__).parent / _LIBRARY).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: install the wheel of onnxruntime-ep-lathe")
    return str(path)


def get_ep_name() -> str:
    """The name of the EP for ONNX Runtime."""
    return _NAMES[0]


def get_ep_names() -> list[str]:
    """The names of all EPs: the second is the provider of genai_config.json."""
    return list(_NAMES)


def register(name: str = "lathe") -> list[str]:
    """Registers the library under `name` with each host that the program has imported, once.

    Returns the hosts: "onnxruntime", "onnxruntime_genai". Each has a copy of ONNX Runtime of its own. A name of
    another EP ("MIGraphXExecutionProvider", "ROCMExecutionProvider", "AMDGPUExecutionProvider") makes the library
    offer an EP of that name. RuntimeError if no host is imported.
    """
    hosts: list[str] = [host for host in ("onnxruntime", "onnxruntime_genai") if host in sys.modules]
    if not hosts:
        raise RuntimeError("neither onnxruntime nor onnxruntime_genai is imported: import one before register()")
    for host in hosts:
        if (host, name) not in _registered:
            sys.modules[host].register_execution_provider_library(name, get_library_path())
            _registered.add((host, name))
    return hosts
