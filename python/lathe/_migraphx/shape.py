# SPDX-License-Identifier: MIT
"""Shapes: an element type with lengths and strides, or with dynamic dimensions."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, SupportsInt

import numpy as np

from lathe import _core
from lathe._errors import InvalidArgument

# Number of the element type in ONNX -> name in MIGraphX. The names after the first six rows are
# Lathe's, in the same form.
_NAMES = {
    9: "bool_type", 10: "half_type", 1: "float_type", 11: "double_type", 2: "uint8_type",
    3: "int8_type", 4: "uint16_type", 5: "int16_type", 6: "int32_type", 7: "int64_type",
    12: "uint32_type", 13: "uint64_type", 18: "fp8e4m3fnuz_type", 17: "fp8e4m3fn_type",
    19: "fp8e5m2_type", 20: "fp8e5m2fnuz_type", 16: "bf16_type", 23: "fp4x2_type",
    8: "string_type", 14: "complex64_type", 15: "complex128_type", 21: "uint4_type",
    22: "int4_type", 24: "fp8e8m0_type", 25: "uint2_type", 26: "int2_type",
}
_NUMBERS = {name: number for number, name in _NAMES.items()}
_NUMBERS |= {name.removesuffix("_type"): number for name, number in list(_NUMBERS.items())}
_NUMBERS |= {f"{name.removesuffix('_type')}_t": number for name, number in list(_NUMBERS.items())
             if name.startswith(("int", "uint"))}

type_t = Enum("type_t", {name: number for number, name in _NAMES.items()})  # type: ignore[misc]


def element_type(name: Any) -> int:
    """The number of a type given as "float_type", "float", a type_t, a dtype or the number."""
    if isinstance(name, type_t):
        return int(name.value)
    if isinstance(name, int) and name in _NAMES:
        return name
    if isinstance(name, str) and name in _NUMBERS:
        return _NUMBERS[name]
    try:
        return int(_core.element_type(np.dtype(name)))
    except TypeError:
        raise InvalidArgument(f"unknown type {name!r}: one of {', '.join(_NAMES.values())}",
                              reason="type") from None


_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
              ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv}


def _evaluate(node: Any, symbols: Mapping[str, int]) -> int:
    if isinstance(node, ast.Expression):
        return _evaluate(node.body, symbols)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and node.id in symbols:
        return symbols[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return int(_OPERATORS[type(node.op)](_evaluate(node.left, symbols),
                                             _evaluate(node.right, symbols)))
    raise InvalidArgument(f"not an expression over {sorted(symbols)}: {ast.unparse(node)!r}")


class dynamic_dimension:
    """A dimension between min and max; `optimals` are preferred sizes.

    dynamic_dimension(1, 8, {1, 4}), or an expression over symbols:
    dynamic_dimension("n*3+1", {"n": dynamic_dimension(1, 8)}).
    """

    def __init__(self, min: int | str, max: int | Mapping[str, dynamic_dimension] | None = None,
                 optimals: Iterable[int] = ()) -> None:
        self.expression = ""
        self.min: int
        self.max: int
        if isinstance(min, str):
            symbols = dict(max) if isinstance(max, Mapping) else {}
            tree = ast.parse(min, mode="eval")
            self.expression = min
            self.symbols = symbols
            self.min = _evaluate(tree, {name: dim.min for name, dim in symbols.items()})
            self.max = _evaluate(tree, {name: dim.max for name, dim in symbols.items()})
        else:
            self.min = int(min)
            self.max = int(max) if isinstance(max, SupportsInt) else self.min
        self.optimals = set(optimals)
        if not 0 <= self.min <= self.max:
            raise InvalidArgument(f"a dimension from {self.min} to {self.max}")

    def is_fixed(self) -> bool:
        return self.min == self.max

    def is_symbolic(self) -> bool:
        return bool(self.expression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dynamic_dimension) and (
            (self.min, self.max, self.optimals, self.expression)
            == (other.min, other.max, other.optimals, other.expression))

    def __hash__(self) -> int:
        return hash((self.min, self.max, self.expression))

    def __repr__(self) -> str:
        text = self.expression or f"{self.min}, {self.max}"
        return f"[ {text}, {{{', '.join(map(str, sorted(self.optimals)))}}} ]"


def _dense(lens: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(lens):
        strides.append(step)
        step *= size
    return strides[::-1]


_Dimension = dynamic_dimension


class shape:
    """A type with lengths and strides: shape(type="float", lens=[2, 3]); or with dynamic
    dimensions: shape(type="float", dyn_dims=[dynamic_dimension(1, 4)])."""

    type_t = type_t
    dynamic_dimension = dynamic_dimension

    def __init__(self, type: Any = "float_type", lens: Sequence[int] | None = None,
                 strides: Sequence[int] | None = None, permutation: Sequence[int] | None = None,
                 dyn_dims: Sequence[_Dimension] | None = None) -> None:
        self._type = element_type(type)
        self._dyn_dims = list(dyn_dims) if dyn_dims is not None else None
        sizes = [d.max for d in self._dyn_dims] if self._dyn_dims is not None else list(lens or [])
        self._scalar = lens is None and dyn_dims is None
        self._lens = [1] if self._scalar else [int(size) for size in sizes]
        if any(size < 0 for size in self._lens):
            raise InvalidArgument(f"negative length in {self._lens}", reason="shape")
        if permutation is not None:
            ordered = _dense([self._lens[axis] for axis in permutation])
            strides = [ordered[list(permutation).index(axis)] for axis in range(len(self._lens))]
        self._strides = [0] if self._scalar else (
            [int(step) for step in strides] if strides is not None else _dense(self._lens))
        if len(self._strides) != len(self._lens):
            raise InvalidArgument(f"{len(self._strides)} strides for {len(self._lens)} lengths",
                                  reason="shape")

    @staticmethod
    def from_json(text: str) -> shape:
        """The shape of {"type": "float_type", "lens": […], "strides": […]}."""
        value = json.loads(text)
        return shape(type=value["type"], lens=value.get("lens"), strides=value.get("strides"))

    def type(self) -> Any:
        return type_t(self._type)

    def type_string(self) -> str:
        return _NAMES[self._type]

    def type_size(self) -> int:
        """Bytes of an element."""
        return int(_core.dtype(self._type).itemsize)

    def lens(self) -> list[int]:
        if self._dyn_dims is not None and not all(d.is_fixed() for d in self._dyn_dims):
            raise InvalidArgument("a dynamic shape has no lengths: use dyn_dims()", reason="shape")
        return list(self._lens)

    def strides(self) -> list[int]:
        return list(self._strides)

    def ndim(self) -> int:
        return len(self._lens)

    def elements(self) -> int:
        return int(np.prod(self._lens, dtype=np.int64))

    def bytes(self) -> int:
        return self.elements() * self.type_size()

    def dyn_dims(self) -> list[_Dimension]:
        return list(self._dyn_dims or [])

    def dynamic(self) -> bool:
        return self._dyn_dims is not None

    def standard(self) -> bool:
        return self._strides == _dense(self._lens)

    def packed(self) -> bool:
        return self._span() == self.elements()

    def _span(self) -> int:
        return 1 + sum((size - 1) * step for size, step in zip(self._lens, self._strides))

    def transposed(self) -> bool:
        steps = [step for step in self._strides if step > 0]
        return steps != sorted(steps, reverse=True)

    def broadcasted(self) -> bool:
        return any(step == 0 for step in self._strides)

    def scalar(self) -> bool:
        return all(step == 0 for step in self._strides)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, shape) and (
            (self._type, self._lens, self._strides, self._dyn_dims)
            == (other._type, other._lens, other._strides, other._dyn_dims))

    def __hash__(self) -> int:
        return hash((self._type, tuple(self._lens), tuple(self._strides)))

    def __repr__(self) -> str:
        if self._dyn_dims is not None:
            return f"dynamic, {self.type_string()}, {{{', '.join(map(repr, self._dyn_dims))}}}"
        lens, strides = (", ".join(map(str, part)) for part in (self._lens, self._strides))
        return f"{self.type_string()}, {{{lens}}}, {{{strides}}}"
