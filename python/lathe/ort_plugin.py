# SPDX-License-Identifier: MIT
"""The plug-in execution provider for stock ONNX Runtime, which is absent."""

from __future__ import annotations

from lathe._features import refuse


def get_library_path() -> str:
    refuse("ONNX Runtime plug-in", "lathe.ort_plugin.get_library_path")
