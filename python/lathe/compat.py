# SPDX-License-Identifier: MIT
"""Runs an unedited program of another library on Lathe.

usage: python -m lathe.compat PROGRAM.py [ARGUMENT...]

The modules onnxruntime, onnxruntime_genai and migraphx are those of Lathe, installed or not.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys

# Name in the program -> module of Lathe.
MODULES = {
    "migraphx": "lathe",
    "onnxruntime": "lathe.onnxruntime",
    "onnxruntime.backend": "lathe.onnxruntime.backend",
    "onnxruntime.backend.backend": "lathe.onnxruntime.backend.backend",
    "onnxruntime.backend.backend_rep": "lathe.onnxruntime.backend.backend_rep",
    "onnxruntime.capi": "lathe.onnxruntime.capi",
    "onnxruntime.capi._pybind_state": "lathe.onnxruntime.capi._pybind_state",
    "onnxruntime.capi.onnxruntime_inference_collection":
        "lathe.onnxruntime.capi.onnxruntime_inference_collection",
    "onnxruntime.capi.onnxruntime_pybind11_state":
        "lathe.onnxruntime.capi.onnxruntime_pybind11_state",
    "onnxruntime.capi.onnxruntime_validation": "lathe.onnxruntime.capi.onnxruntime_validation",
    "onnxruntime_genai": "lathe.genai",
    "onnxruntime_genai.onnxruntime_genai": "lathe.genai",
}


def install() -> None:
    """Makes the modules appear under the names of the other libraries."""
    for name, ours in MODULES.items():
        sys.modules[name] = importlib.import_module(ours)


def main() -> int:
    """Runs the program of sys.argv."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print((__doc__ or "").strip())
        return 0 if len(sys.argv) > 1 else 2
    install()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
