# SPDX-License-Identifier: MIT
from lathe.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
