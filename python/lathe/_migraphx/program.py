# SPDX-License-Identifier: MIT
"""Programs: parsed from ONNX, compiled for a target, run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lathe import _core
from lathe._errors import Error, InvalidArgument
from lathe._features import present_targets, refuse
from lathe._migraphx.argument import argument, generate_argument
from lathe._migraphx.modules import module, parsed_module
from lathe._migraphx.shape import dynamic_dimension, shape

# Levels of compile(compile_mode=…); a plan is the same for all.
compile_modes = {"eager": 0, "balanced": 50, "max": 100}
Dimension = int | dynamic_dimension
_TUNE_SECONDS = 60.0  # of compile(exhaustive_tune=True)


class target:
    """A name of a target: "gpu", "cpu" or "ref"; get_target() makes one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"target({self.name!r})"


def get_target(name: str) -> target:
    """A target by its name. "gpu", "cuda" and "hip", with ":1" their second device, require one."""
    vendor = name.split(":")[0]
    if name in _core.targets() or (vendor in ("gpu", "cuda", "hip") and _core.has_device(name)):
        return target(name)
    if vendor in ("gpu", "cuda", "hip", "fpga"):
        refuse("gpu", f"get_target({name!r})")
    raise InvalidArgument(f"unknown target {name!r}: one of {', '.join(present_targets())}",
                          reason="unknown_name")


def get_targets() -> list[str]:
    """The names of the targets that are present."""
    return present_targets()


def _best_target() -> target:
    return target("cpu" if "cpu" in _core.targets() else _core.targets()[-1])


class program:
    """A model. `parse_onnx` makes one; `compile` chooses its target; `run` is re-entrant."""

    def __init__(self) -> None:
        """An empty program; build its main module."""
        self._core_program = _core.create_program("main")
        self._dims = _Dimensions(0, None, None, None, None)
        self._session: _core.Session | None = None
        self._plan: _core.Plan | None = None
        self._main: module | None = None
        self._is_parsed = False
        self._source: str | bytes = ""
        self._compute = "as_model"

    @classmethod
    def _of(cls, core: _core.Program, dims: _Dimensions) -> program:
        self = cls()
        self._core_program, self._dims, self._is_parsed = core, dims, True
        return self

    @property
    def _program(self) -> _core.Program:
        """The program, whose main module has returned."""
        if not self._is_parsed:
            self.get_main_module()._close()
        return self._core_program

    @property
    def _inputs(self) -> list[tuple[Any, ...]]:
        return self._program.inputs()

    # ---- what the program is

    def get_parameter_names(self) -> list[str]:
        return [info[0] for info in self._inputs]

    def get_parameter_shapes(self) -> dict[str, shape]:
        """Unknown dimensions have the value that parse_onnx was given for them, or 1."""
        return {info[0]: self._dims.shape_of(info) for info in self._inputs}

    def get_output_shapes(self) -> list[shape]:
        """Shapes for the shapes of the parameters. If one is dynamic, so are they: from those for
        the smallest parameters to those for the largest."""
        largest = self._infer(max)
        if not any(self._dims.shape_of(info).dynamic() for info in self._inputs):
            return [shape(element, lens) for element, lens in largest]
        return [shape(element, dyn_dims=[dynamic_dimension(min(ends), max(ends)) for ends in zip(a, b)])
                for (element, a), (_, b) in zip(self._infer(min), largest)]

    def _infer(self, end: Callable[[int, int], int]) -> list[tuple[int, list[int]]]:
        """Types and lengths of the outputs at one end of the parameters' dimensions."""
        try:
            infos = self._program.infer([self._dims.sizes_of(info, end) for info in self._inputs])
        except Error:
            infos = self._program.outputs()
        return [(_type_of(info), [1 if size is None else size for size in info[3] or []])
                for info in infos]

    def is_compiled(self) -> bool:
        return self._session is not None

    def print(self) -> None:
        print(self)

    def sort(self) -> None:
        """No effect: instructions are in order."""

    def to_py(self) -> str:
        """A program that parses the same text."""
        return f"import lathe\np = lathe.parse_onnx_buffer({self._program.text().encode()!r})\n"

    def __str__(self) -> str:
        return self._program.text()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, program) and self._program.text() == other._program.text()

    __hash__ = None  # type: ignore[assignment]

    def get_main_module(self) -> module:
        if self._main is None:
            self._main = (parsed_module(self._core_program) if self._is_parsed
                          else module("main", self._core_program, False))
        return self._main

    def create_module(self, name: str) -> module:
        """A module for the body of an instruction."""
        return module(name, _core.create_program(name), True)

    # ---- compilation and runs

    def compile(self, t: target, offload_copy: bool = True, fast_math: bool = True,
                exhaustive_tune: bool = False, compile_mode: str | int | None = None) -> None:
        """Compiles for a target, once for every shape. exhaustive_tune measures other ways to
        compute products and convolutions for about a minute. offload_copy, fast_math, compile_mode:
        no effect; values lie in host memory and results follow the model."""
        if isinstance(compile_mode, str) and compile_mode not in compile_modes:
            raise InvalidArgument(
                f"unknown compile_mode {compile_mode!r}: one of {', '.join(compile_modes)}")
        session = _core.Session()
        plan = self._program.compile(t.name if isinstance(t, target) else str(t), self._compute,
                                     _TUNE_SECONDS if exhaustive_tune else 0.0)
        session._open(plan)
        self._session, self._plan = session, plan

    def run(self, params: Mapping[str, Any]) -> list[Any]:
        """The outputs for values by parameter name."""
        if self._session is None:
            self.compile(_best_target())
        assert self._session is not None
        results = self._session.run(None, dict(params))
        return [argument(value) if isinstance(value, np.ndarray) else value for value in results]

    def run_async(self, params: Mapping[str, Any], stream: int, stream_name: str) -> list[Any]:
        refuse("streams", "program.run_async")

    def verify(self, target: Any = None, mode: str | None = None,
               params: Mapping[str, Any] | None = None,
               options: Mapping[str, Any] | None = None) -> bool:
        """Compares every stage of compilation with the program as parsed. `params` default to
        generated values; options: {"tolerance": …}. `mode`: no effect."""
        given = params or {name: generate_argument(s)
                           for name, s in self.get_parameter_shapes().items()}
        missing = [name for name in self.get_parameter_names() if name not in given]
        if missing:
            raise InvalidArgument(f"verify lacks parameters: {', '.join(missing)}",
                                  reason="missing_input")
        values = [np.asarray(given[name]) for name in self.get_parameter_names()]
        name = getattr(target, "name", target) or "auto"
        passed, self.verify_report = self._program.verify(
            name, float((options or {}).get("tolerance", 0)), values)
        return bool(passed)

    def explain(self, t: target | None = None) -> None:
        """Prints what runs where and why, as `lathe explain` does, in the type of quantize_…()."""
        options = ["--compute", self._compute, *(["--target", t.name] if t is not None else [])]
        sys.stdout.flush()
        if isinstance(self._source, bytes):
            with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
                file.write(self._source)
                file.flush()
                _core.run_command(["explain", file.name, *options])
        elif self._source:
            _core.run_command(["explain", self._source, *options])
        else:
            raise InvalidArgument("explain() requires a program that was parsed")

    def write(self, format: str) -> str:
        """The program as "text", "json" or "dot"."""
        return self._program.write(format)


def _set_compute(prog: program, compute: str) -> None:
    if not isinstance(prog, program):
        raise TypeError(f"{type(prog).__name__} is not a program")
    prog._compute = compute


def quantize_fp16(prog: program, ins_names: Sequence[str] = ("all",)) -> None:
    """As quantize_bf16: bf16 is the 16-bit type of the processor's matrix instructions."""
    _set_compute(prog, "bf16")


def quantize_bf16(prog: program, ins_names: Sequence[str] = ("all",)) -> None:
    """Products of matrices and convolutions with constant weights are computed in bf16 from the next
    compile() on, where the processor has instructions for it. ins_names: no effect."""
    _set_compute(prog, "bf16")


def quantize_int8(prog: program, t: target, calibration: Sequence[Any] = (),
                  ins_names: Sequence[str] = ("dot", "convolution")) -> None:
    """Products of matrices with constant weights are computed in int8 from the next compile() on.
    Weights and activations are quantised per row at run time, without calibration data."""
    _set_compute(prog, "int8")


def get_onnx_operators() -> list[str]:
    """The names of the ONNX operators that can be parsed, "domain::name" outside ai.onnx."""
    done = subprocess.run([sys.executable, "-m", "lathe", "ops", "--onnx"], capture_output=True,
                          check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    rules = json.loads(done.stdout)
    names = {rule["operator"] if rule["domain"] in ("", "ai.onnx")
             else f"{rule['domain']}::{rule['operator']}" for rule in rules if rule["supported"]}
    return sorted(names)


def _type_of(info: tuple[Any, ...]) -> int:
    return int(info[2]) or 1


class _Dimensions:
    """The arguments of parse_onnx about dimensions."""

    def __init__(self, default_dim_value: int, default_dyn_dim_value: dynamic_dimension | None,
                 dim_params: Mapping[str, Dimension] | None,
                 map_input_dims: Mapping[str, Sequence[int]] | None,
                 map_dyn_input_dims: Mapping[str, Sequence[dynamic_dimension]] | None) -> None:
        if default_dim_value and default_dyn_dim_value is not None:
            raise InvalidArgument("default_dim_value and default_dyn_dim_value exclude each other")
        if map_input_dims and map_dyn_input_dims:
            raise InvalidArgument("map_input_dims and map_dyn_input_dims exclude each other")
        self._default: Dimension = default_dyn_dim_value or default_dim_value or 1
        self._by_name = dict(dim_params or {})
        self._by_input: dict[str, Sequence[Dimension]] = {
            **(map_input_dims or {}), **(map_dyn_input_dims or {})}

    def _dimensions(self, info: tuple[Any, ...]) -> list[Dimension]:
        name, _, _, dims, names, _, _, _ = info
        if name in self._by_input:
            return list(self._by_input[name])
        return [size if size is not None else self._by_name.get(dim, self._default)
                for size, dim in zip(dims or [], names)]

    def check(self, inputs: list[tuple[Any, ...]]) -> None:
        known = {info[0] for info in inputs}
        for name in self._by_input:
            if name not in known:
                raise InvalidArgument(
                    f"unknown input {name!r} in the map of input dims: the model has "
                    f"{', '.join(sorted(known))}", reason="unknown_name")

    def shape_of(self, info: tuple[Any, ...]) -> shape:
        dims = self._dimensions(info)
        if any(isinstance(dim, dynamic_dimension) for dim in dims):
            ranges = [d if isinstance(d, dynamic_dimension) else dynamic_dimension(d, d)
                      for d in dims]
            return shape(_type_of(info), dyn_dims=ranges)
        return shape(_type_of(info), lens=[int(d) for d in dims])  # type: ignore[arg-type]

    def sizes_of(self, info: tuple[Any, ...],
                 end: Callable[[int, int], int]) -> list[int] | None:
        """Sizes for inference; a dynamic dimension counts as this end of it, min or max."""
        if info[3] is None and info[0] not in self._by_input:
            return None
        return [end(d.min, d.max) if isinstance(d, dynamic_dimension) else int(d)
                for d in self._dimensions(info)]


def _parse(source: str | bytes, load: Any, dims: _Dimensions, skip_unknown_operators: bool,
           print_program_on_error: bool) -> program:
    if skip_unknown_operators:
        warnings.warn("skip_unknown_operators has no effect: unknown operators are an error",
                      stacklevel=3)
    core = load()
    dims.check(core.inputs())
    made = program._of(core, dims)
    made._source = source
    return made


def parse_onnx(
    filename: str | os.PathLike[str],
    default_dim_value: int = 0,
    default_dyn_dim_value: dynamic_dimension | None = None,
    dim_params: Mapping[str, Dimension] | None = None,
    map_input_dims: Mapping[str, Sequence[int]] | None = None,
    map_dyn_input_dims: Mapping[str, Sequence[dynamic_dimension]] | None = None,
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    max_loop_iterations: int = 10,
    limit_max_iterations: int = 65535,
    use_debug_symbols: bool = False,
) -> program:
    """Parses an ONNX file. Loops run as often as the model states; symbols stay symbols, so that
    max_loop_iterations, limit_max_iterations and use_debug_symbols have no effect."""
    dims = _Dimensions(default_dim_value, default_dyn_dim_value, dim_params, map_input_dims,
                       map_dyn_input_dims)
    return _parse(os.fspath(filename), lambda: _core.load(os.fspath(filename), "", [], {}), dims,
                  skip_unknown_operators, print_program_on_error)


def parse_onnx_buffer(
    buffer: bytes,
    default_dim_value: int = 0,
    default_dyn_dim_value: dynamic_dimension | None = None,
    map_input_dims: Mapping[str, Sequence[int]] | None = None,
    map_dyn_input_dims: Mapping[str, Sequence[dynamic_dimension]] | None = None,
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    external_data_path: str = "",
    dim_params: Mapping[str, Dimension] | None = None,
    max_loop_iterations: int = 10,
    limit_max_iterations: int = 65535,
    use_debug_symbols: bool = False,
) -> program:
    """Parses the bytes of an ONNX file; external_data_path is the folder of its weights."""
    dims = _Dimensions(default_dim_value, default_dyn_dim_value, dim_params, map_input_dims,
                       map_dyn_input_dims)
    data = buffer.encode("latin-1") if isinstance(buffer, str) else bytes(buffer)
    return _parse(data, lambda: _core.load_memory(data, "", external_data_path, [], {}), dims,
                  skip_unknown_operators, print_program_on_error)
