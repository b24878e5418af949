# SPDX-License-Identifier: MIT
"""InferenceSession: loads, compiles and runs a model."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lathe import _core
from lathe._errors import Error, InvalidArgument
from lathe.onnxruntime import _providers
from lathe.onnxruntime._binding import IOBinding
from lathe.onnxruntime._devices import OrtEpAssignedNode, OrtEpAssignedSubgraph, get_ep_devices
from lathe.onnxruntime._exceptions import Fail, ModelLoadCanceled, translate
from lathe.onnxruntime._node_arg import ModelMetadata, NodeArg, node_arg
from lathe.onnxruntime._options import RunOptions, SessionOptions
from lathe.onnxruntime._profile import Profile
from lathe.onnxruntime._values import (
    OrtDevice,
    OrtMemoryInfo,
    OrtValue,
    cpu_memory,
    element_type_of,
    unwrap,
)

_asynchronous: concurrent.futures.ThreadPoolExecutor | None = None


def _executor() -> concurrent.futures.ThreadPoolExecutor:
    global _asynchronous
    if _asynchronous is None:
        _asynchronous = concurrent.futures.ThreadPoolExecutor(
            os.cpu_count(), thread_name_prefix="lathe_run_async")
    return _asynchronous


class InferenceSession(_core.Session):
    """A compiled model. `run` is re-entrant: any number of threads may share a session.

    path_or_bytes: an ONNX file or its bytes. sess_options: SessionOptions. providers: names, or
    (name, options) pairs, best first; absent ones are named in a warning and the best target
    present runs the model. provider_options: options for `providers` of names.
    enable_fallback, disabled_optimizers, read_config_from_model: no effect.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        unknown = set(kwargs) - {"enable_fallback", "disabled_optimizers", "read_config_from_model"}
        if unknown:
            raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(unknown))}")
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._source: str | bytes = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            self._source = bytes(path_or_bytes)
            if not self._source:
                raise InvalidArgument("the model has no bytes", reason="not_protobuf")
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._profile = Profile(self._options.profile_file_prefix) if (
            self._options.enable_profiling
            or self._options._config.get("session.enable_profiling") == "1") else None
        self._fixed_inputs: dict[str, Any] = {}
        self._overridden: list[str] = []
        self._reopening = threading.Lock()
        if providers is None and self._options.has_providers():
            providers = self._options._providers
        self._load(providers, provider_options)

    # ---- loading

    def _load(self, providers: Any, provider_options: Any) -> None:
        pairs = _providers.normalize(providers, provider_options)
        no_fallback = self._options._config.get("session.disable_cpu_ep_fallback", "0") == "1"
        self._target, self._provider_pairs = _providers.choose_target(pairs, no_fallback)
        try:
            self._program = self._parse(self._overridden)
            self._compile()
        except Error as error:
            translated = translate(error)
            if translated is error:
                raise
            raise translated from None

    def _check_load(self) -> None:
        if self._options._is_load_cancelled:
            raise ModelLoadCanceled("the load was cancelled by set_load_cancellation_flag(True)")

    def _parse(self, overridden: list[str]) -> _core.Program:
        options = self._options
        self._check_load()
        names = list(dict.fromkeys([*options._initializers, *overridden]))
        start = time.perf_counter_ns()
        if isinstance(self._source, str):
            program = _core.load(self._source, "", names, options._files)
            event = "model_loading_uri"
        else:
            folder = options._config.get("session.model_external_initializers_file_folder_path", "")
            program = _core.load_memory(self._source, "", folder, names, options._files)
            event = "model_loading_array"
        if self._profile:
            self._profile.session_event(event, start)
        return program

    def _compile(self) -> None:
        start = time.perf_counter_ns()
        self._check_load()
        plan = self._program.compile(self._target)
        self._check_load()
        self._open(plan, self._options._threads())
        self._plan = plan
        if self._profile:
            self._profile.session_event("session_initialization", start)
        header = self._program.header()
        self._model_meta = ModelMetadata(header)
        overrides = self._overrides()
        inputs = [node_arg(info, overrides) for info in self._program.inputs()]
        present = {info[0] for info in self._program.inputs() if info[7]}
        self._fixed_inputs = {  # others are no initialisers of the model
            name: unwrap(value) for name, value in self._options._initializers.items()
            if name in present}
        hidden = {*self._fixed_inputs, *self._overridden}
        self._inputs_meta = [arg for arg in inputs if arg.name not in hidden]
        self._outputs_meta = [node_arg(info, overrides) for info in self._program.outputs()]
        defaults = [node_arg(info) for info in self._program.defaults()]
        self._overridable = defaults + [arg for arg in inputs if arg.name in self._overridden]
        self._required_dims = {
            arg.name: [size if isinstance(size, int) else None for size in arg.shape]
            for arg in self._inputs_meta} if overrides else {}
        self._passable = frozenset(self._overridden)
        if not self._profile:
            self.run_with_iobinding = _core.run_with_iobinding  # type: ignore[method-assign]
        # The common session runs in the extension; others pass through _run_general.
        if self._profile or self._fixed_inputs or self._required_dims or self._overridable:
            self.run = self._run_general  # type: ignore[method-assign]

    def _overrides(self) -> dict[str, int]:
        """Sizes of free dimensions by name."""
        found = dict(self._options._dims_by_name)
        wanted = self._options._dims_by_denotation
        for _, _, _, dims, names, _, denotations, _ in self._program.inputs() if wanted else []:
            for size, name, denotation in zip(dims or [], names, denotations):
                if size is None and denotation in wanted:
                    found[name] = wanted[denotation]
        return found

    # ---- runs

    def _run_general(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
                     run_options: RunOptions | None = None) -> list[Any]:
        """run() of a session with a profile, added initialisers or fixed dimensions."""
        feed = {name: unwrap(value) for name, value in input_feed.items()}
        new = [arg.name for arg in self._overridable
               if arg.name in feed and arg.name not in self._passable]
        if new:
            with self._reopening:
                missing = [name for name in new if name not in self._passable]
                if missing:
                    self._overridden += missing
                    self._program = self._parse(self._overridden)
                    self._compile()
        for name, wanted in self._required_dims.items():
            shape = np.shape(feed[name]) if name in feed else ()
            for axis, size in enumerate(wanted):
                if size is not None and axis < len(shape) and shape[axis] != size:
                    raise InvalidArgument(
                        f"Got invalid dimensions for input: {name} for the following indices\n"
                        f" index: {axis} Got: {shape[axis]} Expected: {size}", reason="shape")
        feed.update(self._fixed_inputs)
        if self._profile is None or not self._profile.is_open:
            return super().run(output_names, feed, run_options)
        start = time.perf_counter_ns()
        results, trace = super()._run_traced(output_names, feed, run_options)
        self._profile.run_event(start, self._provider_pairs[0][0], trace)
        return list(results)

    def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
                  callback: Callable[[Any, Any, str], None], user_data: Any,
                  run_options: RunOptions | None = None) -> None:
        """Runs in another thread, then calls callback(results, user_data, error text)."""
        feed = dict(input_feed)

        def work() -> None:
            try:
                results = self.run(output_names, feed, run_options)
            except Exception as error:
                callback([], user_data, str(error) or type(error).__name__)
            else:
                callback(results, user_data, "")

        _executor().submit(work)

    def run_with_ort_values(self, output_names: Sequence[str] | None,
                            input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        """run() on OrtValues."""
        feed = {name: unwrap(value) for name, value in input_dict_ort_values.items()}
        return [OrtValue(value) for value in self.run(output_names, feed, run_options)]

    def run_with_ortvaluevector(self, run_options: RunOptions | None, feed_names: Sequence[str],
                                feeds: Sequence[OrtValue], fetch_names: Sequence[str],
                                fetches: Any, fetch_devices: Sequence[OrtDevice]) -> None:
        """Appends the results to the list `fetches`."""
        feed = {name: unwrap(value) for name, value in zip(feed_names, feeds)}
        fetches.extend(OrtValue(value) for value in self.run(fetch_names, feed, run_options))

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs on bound values."""
        if self._profile is None or not self._profile.is_open:
            iobinding._run(run_options)
            return
        start = time.perf_counter_ns()
        trace = iobinding._run_traced(run_options)
        self._profile.run_event(start, self._provider_pairs[0][0], trace)

    def create_ortvalue_from_shape_and_type(self, shape: Sequence[int], element_type: Any,
                                            device_type: str = "cpu", device_id: int = 0,
                                            **kwargs: Any) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(
            shape, element_type_of(element_type), device_type, device_id)

    # ---- what the session is

    def get_inputs(self) -> list[NodeArg]:
        return self._inputs_meta

    def get_outputs(self) -> list[NodeArg]:
        return self._outputs_meta

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs with a default that a run may pass."""
        return self._overridable

    def get_modelmeta(self) -> ModelMetadata:
        return self._model_meta

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_providers(self) -> list[str]:
        """The providers in use, best first."""
        return [name for name, _ in self._provider_pairs]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return dict(self._provider_pairs)

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Compiles the model again for other providers; runs in progress end on the former."""
        with self._reopening:
            self._load(providers, provider_options)

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """The whole model in one subgraph of the provider in use."""
        if self._options._config.get("session.record_ep_graph_assignment_info") != "1":
            raise Fail("set the session option session.record_ep_graph_assignment_info to 1")
        node = OrtEpAssignedNode(self._model_meta.graph_name, "", "Lathe")
        return [OrtEpAssignedSubgraph(self._provider_pairs[0][0], [node])]

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        return [cpu_memory() for _ in self._inputs_meta]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        return [cpu_memory() for _ in self._outputs_meta]

    def get_input_epdevices(self) -> list[Any]:
        return [get_ep_devices()[0] for _ in self._inputs_meta]

    def disable_fallback(self) -> None:
        """No effect: a run never changes its target."""

    def enable_fallback(self) -> None:
        """No effect: a run never changes its target."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """No effect: nothing is captured."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """No effect: targets have no options at run time."""

    def get_tuning_results(self) -> list[Any]:
        """Empty: targets are not tuned."""
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """No effect: targets are not tuned."""

    def end_profiling(self) -> str:
        """Writes the profile and returns its path; "" without one."""
        return self._profile.finish() if self._profile else ""

    def get_profiling_start_time_ns(self) -> int:
        """A clock reading at the start of the profile."""
        return self._profile.start_ns if self._profile else 0
