# SPDX-License-Identifier: MIT
"""ModelCompiler: writes compiled files, which InferenceSession takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from lathe._features import refuse
from lathe.onnxruntime._options import SessionOptions
from lathe.onnxruntime._session import InferenceSession


class ModelCompiler:
    """Compiles a model for a session's options. What it writes is a compiled file of Lathe (.lathe),
    whatever its name: one file with all constants.

    embed_compiled_data_into_model, external_initializers_size_threshold, flags,
    graph_optimization_level, get_initializer_location_func: no effect.
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = 0,
        graph_optimization_level: Any = None,
        get_initializer_location_func: Callable[..., Any] | None = None,
    ) -> None:
        if isinstance(input_model_path_or_bytes, (str, os.PathLike)):
            if not os.fspath(input_model_path_or_bytes):
                raise ValueError("Input model path is empty")
            self._path: str | None = os.fspath(input_model_path_or_bytes)
        elif isinstance(input_model_path_or_bytes, bytes):
            if not input_model_path_or_bytes:
                raise ValueError("Input model bytes array is empty")
            self._path = None
        else:
            raise TypeError(f"Unable to load from type '{type(input_model_path_or_bytes)}'")
        if external_initializers_file_path and not isinstance(
                external_initializers_file_path, (str, os.PathLike)):
            raise TypeError("Output external initializer filepath is of unexpected type "
                            f"'{type(external_initializers_file_path)}'")
        if external_initializers_file_path and get_initializer_location_func is not None:
            raise ValueError("Cannot initialize ModelCompiler with both `external_initializers_file_path` "
                             "and `get_initializer_location_func`")
        self._plan = InferenceSession(input_model_path_or_bytes, sess_options)._plan

    def compile_to_file(self, output_model_path: str | os.PathLike[str] | None = None) -> None:
        """Writes the file; None: beside the model, "model.onnx" as "model_ctx.onnx"."""
        if output_model_path is None or not os.fspath(output_model_path):
            if self._path is None:
                raise ValueError("compile_to_file() of a model in memory requires output_model_path")
            stem = self._path.removesuffix(".onnx")
            output_model_path = f"{stem}_ctx.onnx"
        self._plan.save(os.fspath(output_model_path))

    def compile_to_bytes(self) -> bytes:
        """The bytes of the file."""
        return self._plan.save_bytes()

    def compile_to_stream(self, write_function: Callable[[bytes], Any]) -> None:
        """Passes the bytes of the file to a function."""
        write_function(self._plan.save_bytes())

    def set_ep_context_binary_information(
            self, output_directory: str | os.PathLike[str], model_name: str) -> None:
        """No effect: there are no files beside the compiled one."""

    def set_ep_context_data_write_func(self, write_func: Callable[..., Any]) -> None:
        refuse("EP contexts", "ModelCompiler.set_ep_context_data_write_func")

    def clear_ep_context_data_write_func(self) -> None:
        """No effect: there is none."""
