# SPDX-License-Identifier: MIT
"""The execution provider of the package onnxruntime-ep-lathe, which must be installed too."""

from lathe._features import refuse

try:
    from onnxruntime_ep_lathe import get_ep_name, get_ep_names, get_library_path, register
except ModuleNotFoundError:
    refuse("ONNX Runtime plug-in", "lathe.ort_plugin")

__all__ = ["get_ep_name", "get_ep_names", "get_library_path", "register"]
