# SPDX-License-Identifier: MIT
"""Options of sessions and runs."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lathe import _core
from lathe._errors import InvalidArgument
from lathe._features import refuse
from lathe.onnxruntime._enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from lathe.onnxruntime._exceptions import Fail
from lathe.onnxruntime._keys import check_config_entry, check_session_key
from lathe.onnxruntime._values import OrtValue


def _check_size(name: str, size: Any) -> int:
    """A size of a dimension; TypeError for a value that is no integer."""
    if isinstance(size, bool) or not hasattr(type(size), "__index__"):
        raise TypeError(f"the size of {name!r} is {size!r}, expected an integer")
    return operator.index(size)


def _check_attribute(kinds: Mapping[str, type[Any]], owner: str, name: str, value: Any) -> None:
    """Raises for an attribute that the options lack, or a value of another type."""
    if name.startswith("_"):
        return
    kind = kinds.get(name)
    if kind is None:
        raise AttributeError(f"{owner!r} object has no attribute {name!r}")
    if kind is int:
        fits = (hasattr(type(value), "__index__")
                and -(2**31) <= operator.index(value) < 2**31)
    elif kind is bool:
        fits = value is None or isinstance(value, (bool, np.bool_))
    else:
        fits = isinstance(value, kind)
    if not fits:
        expected = "an integer of 32 bits" if kind is int else kind.__name__
        raise TypeError(f"{owner}.{name} = {value!r}: expected {expected}")


class SessionOptions:
    """Options of an InferenceSession.

    `intra_op_num_threads`, `enable_profiling`, `profile_file_prefix`, `use_per_session_threads`,
    free dimensions and initialisers are honoured. Settings of ONNX Runtime's arena, memory
    patterns, optimiser levels and log have no effect on results.
    """

    _kinds: Mapping[str, type[Any]] = {
        **dict.fromkeys(("inter_op_num_threads", "intra_op_num_threads", "log_severity_level",
                         "log_verbosity_level"), int),
        **dict.fromkeys(("enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse",
                         "enable_profiling", "use_deterministic_compute",
                         "use_per_session_threads"), bool),
        **dict.fromkeys(("logid", "optimized_model_filepath", "profile_file_prefix"), str),
        "execution_mode": ExecutionMode,
        "execution_order": ExecutionOrder,
        "graph_optimization_level": GraphOptimizationLevel,
    }

    def __init__(self) -> None:
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.enable_profiling = False
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.inter_op_num_threads = 0
        self.intra_op_num_threads = 0
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self._optimized_model_filepath = ""
        self.profile_file_prefix = "onnxruntime_profile_"
        self.use_deterministic_compute = False
        self.use_per_session_threads = True
        self._config: dict[str, str] = {}
        self._dims_by_name: dict[str, int] = {}
        self._dims_by_denotation: dict[str, int] = {}
        self._initializers: dict[str, Any] = {}
        self._files: dict[str, bytes] = {}
        self._providers: list[tuple[str, dict[str, str]]] = []
        self._is_load_cancelled = False

    def __setattr__(self, name: str, value: Any) -> None:
        _check_attribute(self._kinds, "SessionOptions", name, value)
        object.__setattr__(self, name, value)

    @property
    def optimized_model_filepath(self) -> str:
        return self._optimized_model_filepath

    @optimized_model_filepath.setter
    def optimized_model_filepath(self, path: str) -> None:
        if path:
            refuse("writing ONNX", "SessionOptions.optimized_model_filepath")
        self._optimized_model_filepath = path

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Sets a configuration key; a value that cannot be honoured is refused."""
        check_config_entry(key, value)
        check_session_key(key, value)
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        if key not in self._config:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._config[key]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes a named dimension of the inputs."""
        self._dims_by_name[name] = _check_size(name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fixes the dimensions of the inputs with a denotation."""
        self._dims_by_denotation[denotation] = _check_size(denotation, size)

    def add_initializer(self, name: str, ort_value: Any) -> None:
        """Replaces an initialiser of the model; the memory is used in place."""
        if not isinstance(ort_value, OrtValue):
            raise InvalidArgument(
                f"initializer {name!r} is of {type(ort_value).__name__}, expected OrtValue",
                reason="type")
        if name in self._initializers:
            raise InvalidArgument(f"initializer {name!r} was added before")
        self._initializers[name] = ort_value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        if len(names) != len(values):
            raise Fail(f"got {len(names)} names and {len(values)} values")
        for name, value in zip(names, values):
            self.add_initializer(name, value)

    def add_external_initializers_from_files_in_memory(
        self, file_names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Files with external data, in memory: bytes or objects with the buffer protocol."""
        for name, buffer, length in zip(file_names, buffers, lengths):
            self._files[str(name)] = bytes(memoryview(buffer)[:length])

    def register_custom_ops_library(self, path: str | os.PathLike[str]) -> None:
        refuse("custom-op libraries", "SessionOptions.register_custom_ops_library")

    def set_load_cancellation_flag(self, flag: bool) -> None:
        """True ends loads with these options, from any thread, at the next of their steps: parsing,
        compilation, allocation."""
        self._is_load_cancelled = bool(flag)

    def add_provider(self, name: str, options: Mapping[str, str] | None = None) -> None:
        self._providers.append((name, dict(options or {})))

    def add_provider_for_devices(self, devices: Sequence[Any], options: Mapping[str, str]) -> None:
        for device in devices:
            self._providers.append((device.ep_name, dict(options)))

    def has_providers(self) -> bool:
        return bool(self._providers)

    def set_provider_selection_policy(self, policy: Any) -> None:
        """No effect: the processor is chosen unless a provider is named."""

    def set_provider_selection_policy_delegate(self, delegate: Callable[..., Any]) -> None:
        """No effect: the processor is chosen unless a provider is named."""

    def set_ep_context_data_read_func(self, function: Callable[..., Any]) -> None:
        refuse("EP contexts", "SessionOptions.set_ep_context_data_read_func")

    def clear_ep_context_data_read_func(self) -> None:
        """No effect: there is none."""

    def _threads(self) -> int:
        """Threads of a session of its own; 0: those of the process."""
        if not self.use_per_session_threads or self._config.get("session.use_per_session_threads") == "0":
            return 0
        return int(self._config.get("session.intra_op_num_threads", self.intra_op_num_threads))


class RunOptions:
    """Options of a run. `terminate` ends runs with these options, from any thread."""

    _kinds: Mapping[str, type[Any]] = {
        **dict.fromkeys(("log_severity_level", "log_verbosity_level"), int),
        **dict.fromkeys(("only_execute_path_to_fetches", "terminate"), bool),
        "logid": str,
    }

    def __init__(self) -> None:
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self._terminate = False
        self._config: dict[str, str] = {}
        self._cancel = _core.Cancel()

    def __setattr__(self, name: str, value: Any) -> None:
        _check_attribute(self._kinds, "RunOptions", name, value)
        object.__setattr__(self, name, value)

    @property
    def terminate(self) -> bool:
        return self._terminate

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._terminate = bool(value)
        if self._terminate:
            self._cancel.set()
        else:
            self._cancel.reset()

    def add_run_config_entry(self, key: str, value: str) -> None:
        check_config_entry(key, value)
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        if key not in self._config:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self._config[key]

    def add_active_adapter(self, adapter: Any) -> None:
        refuse("adapters", "RunOptions.add_active_adapter")
