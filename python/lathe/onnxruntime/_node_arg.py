# SPDX-License-Identifier: MIT
"""Inputs, outputs and metadata of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lathe import _core

_KIND_SEQUENCE, _KIND_OPTIONAL, _KIND_MAP = 2, 3, 4
_ELEMENT = re.compile(r"^(\w+)")
_NAMES = {
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "string": "string",
    "bool": "bool", "c64": "complex64", "c128": "complex128",
    **{f"u{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}


def element_name(name: str) -> str:
    """"f32" in the spelling of ONNX Runtime: "float"."""
    return _NAMES.get(name, name)


def _onnx_type(text: str) -> str:
    """"seq<f32[…]>" in the spelling of ONNX Runtime: "seq(tensor(float))"."""
    for ours, theirs in (("seq<", "seq"), ("opt<", "optional")):
        if text.startswith(ours) and text.endswith(">"):
            return f"{theirs}({_onnx_type(text[len(ours):-1].strip())})"
    if text.startswith("map<") and text.endswith(">"):
        key, _, value = text[4:-1].partition(",")
        return f"map({_NAMES.get(key.strip(), key.strip())},{_onnx_type(value.strip())})"
    match = _ELEMENT.match(text)
    name = match.group(1) if match else text
    return f"tensor({element_name(name)})"


class NodeArg:
    """An input or output: its name, its type as "tensor(float)", its shape: integers, names of
    free dimensions, None where the model has neither."""

    __slots__ = ("_element_type", "name", "shape", "type")

    def __init__(self, name: str, type: str, shape: list[Any], element_type: int = 0) -> None:
        self.name = name
        self.type = type
        self.shape = shape
        self._element_type = element_type

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"

    __str__ = __repr__


def node_arg(info: tuple[Any, ...], overrides: Mapping[str, int] = {}) -> NodeArg:
    """A NodeArg of what _core reports of a value."""
    name, kind, element_type, dims, dim_names, text, _, _ = info
    if kind in (_KIND_SEQUENCE, _KIND_OPTIONAL, _KIND_MAP):
        return NodeArg(name, _onnx_type(text), [], element_type)
    shape: list[Any] = []
    for axis, (size, dim) in enumerate(zip(dims or [], dim_names)):
        if size is not None:
            shape.append(size)
        elif dim in overrides:
            shape.append(overrides[dim])
        else:
            shape.append(None if dim in ("", "?", f"{name}_{axis}") else dim)
    return NodeArg(name, _core.onnx_type_name(element_type), shape, element_type)


class ModelMetadata:
    """The metadata of an ONNX file."""

    def __init__(self, header: Mapping[str, Any] = {}) -> None:
        self.producer_name: str = header.get("producer_name", "")
        self.graph_name: str = header.get("graph_name", "")
        self.domain: str = header.get("domain", "")
        self.description: str = header.get("description", "")
        self.graph_description: str = header.get("graph_description", "")
        self.version: int = header.get("version", 0)
        self.custom_metadata_map: dict[str, str] = dict(header.get("custom_metadata_map", {}))
