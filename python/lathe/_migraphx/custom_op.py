# SPDX-License-Identifier: MIT
"""Ops of the caller."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lathe import _core
from lathe._migraphx.shape import shape
from lathe._migraphx.types import shape_of, text_of


def custom_op(name: str, compute: Callable[..., Any], *, operands: Sequence[str] = ("x",),
              results: int = 1, compute_shape: Callable[..., Any] | None = None,
              attributes: Mapping[str, Any] | None = None, doc: str = "", pure: bool = True) -> None:
    """Registers an op for the life of the process; add it by op(name, …).

    compute(*arrays, **attributes) returns an array, or a tuple of `results` arrays.
    compute_shape(*shapes, **attributes) returns the results' shapes; without it they have that of the
    first operand. operands: names, "bias?" for an optional one, which is None where it is absent.
    attributes: defaults by name. pure=False: calls with equal operands may differ.
    """

    def infer(types: list[str | None], values: dict[str, Any]) -> list[str]:
        assert compute_shape is not None
        made = compute_shape(*(None if text is None else shape_of(text) for text in types), **values)
        return [text_of(s) for s in ([made] if isinstance(made, shape) else made)]

    def run(arrays: list[Any], values: dict[str, Any]) -> tuple[Any, ...]:
        made = compute(*arrays, **values)
        return made if isinstance(made, tuple) else (made,)

    _core.register_op(name, doc, list(operands), json.dumps(dict(attributes or {})),
                      results, infer if compute_shape else None, run, pure)
